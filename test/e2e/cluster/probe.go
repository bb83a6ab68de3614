package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// Probed is what came of a probe of one pod by another, by TCP.
type Probed struct {
	Token    string
	Answered bool
	// Answerer is who answered.
	Answerer wire.Identity
}

// Probe lets one pod dial another at its own address, by TCP.
func (c *Cluster) Probe(t *testing.T, from, to *corev1.Pod) Probed {
	t.Helper()
	p, err := c.TryProbe(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TryProbe is Probe for those who wait for something.
func (c *Cluster) TryProbe(ctx context.Context, from, to *corev1.Pod) (Probed, error) {
	token, err := matrix.NewToken()
	if err != nil {
		return Probed{}, err
	}
	address, err := matrix.AddressOf(to)
	if err != nil {
		return Probed{}, err
	}
	results, err := matrix.Probe(ctx, c.Exec, from.Namespace, from.Name, []wire.Target{{Address: address, Protocol: wire.TCP, Token: token}})
	if err != nil {
		return Probed{}, err
	}
	return Probed{Token: token, Answered: results[token].Answered, Answerer: results[token].Answerer}, nil
}

// Reach waits until one pod reaches another, and nobody else in its place.
func (c *Cluster) Reach(t *testing.T, from, to *corev1.Pod) {
	t.Helper()
	Eventually(t, Patience, fmt.Sprintf("%s reaches %s", from.Name, to.Name), func(ctx context.Context) error {
		p, err := c.TryProbe(ctx, from, to)
		switch {
		case err != nil:
			return err
		case !p.Answered:
			return fmt.Errorf("no answer")
		case p.Answerer.UID != string(to.UID):
			t.Fatalf("%s answered in the place of %s", p.Answerer, to.Name)
		}
		return nil
	})
}

// AwaitProbes waits until each of a pod's probes ends as it should.
func (c *Cluster) AwaitProbes(t *testing.T, from *corev1.Pod, targets []wire.Target, judge func(wire.Result) error) {
	t.Helper()
	what := fmt.Sprintf("%s/%s probes %s", from.Namespace, from.Name, targets[0].AddrPort())
	Eventually(t, Patience, what, func(ctx context.Context) error {
		for i := range targets {
			targets[i].Token = NewToken(t)
		}
		results, err := matrix.Probe(ctx, c.Exec, from.Namespace, from.Name, targets)
		if err != nil {
			return err
		}
		var wrong []error
		for _, target := range targets {
			if err := judge(results[target.Token]); err != nil {
				wrong = append(wrong, fmt.Errorf("%s by %s: %w", target.AddrPort(), target.Protocol, err))
			}
		}
		return errors.Join(wrong...)
	})
}
