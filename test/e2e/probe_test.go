//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// probed is what came of a probe of one pod by another, by TCP.
type probed struct {
	token    string
	answered bool
	by       wire.Identity
}

func probe(t *testing.T, from, to *corev1.Pod) probed {
	t.Helper()
	p, err := tryProbe(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func tryProbe(ctx context.Context, from, to *corev1.Pod) (probed, error) {
	token, err := matrix.NewToken()
	if err != nil {
		return probed{}, err
	}
	address, err := matrix.AddressOf(to)
	if err != nil {
		return probed{}, err
	}
	results, err := matrix.Probe(ctx, env.exec, from.Namespace, from.Name, []wire.Target{{Address: address, Protocol: wire.TCP, Token: token}})
	if err != nil {
		return probed{}, err
	}
	return probed{token: token, answered: results[token].Answered, by: results[token].By}, nil
}

// reach waits until one pod reaches another, and nobody else in its place.
func reach(t *testing.T, from, to *corev1.Pod) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("%s reaches %s", from.Name, to.Name), func(ctx context.Context) error {
		p, err := tryProbe(ctx, from, to)
		switch {
		case err != nil:
			return err
		case !p.answered:
			return fmt.Errorf("no answer")
		case p.by.UID != string(to.UID):
			t.Fatalf("%s answered in the place of %s", p.by, to.Name)
		}
		return nil
	})
}

// waitNetworkGone waits until a Network does not exist.
func (c *cluster) waitNetworkGone(t *testing.T, name string) {
	t.Helper()
	eventually(t, readyWithin, "Network "+name+" gone", func(ctx context.Context) error {
		n, err := c.clients.Network(ctx, name)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("it is still there: %+v", n.Status)
	})
}
