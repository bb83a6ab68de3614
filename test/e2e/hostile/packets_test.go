//go:build e2e

package hostile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// dials lets a pod dial an address by an ordinary socket. The attacker has a connection, or an answer.
func dials(from *corev1.Pod, address netip.Addr, port uint16, protocol wire.Protocol) attempt {
	return func(ctx context.Context) (string, error) {
		token, err := matrix.NewToken()
		if err != nil {
			return "", err
		}
		results, err := matrix.Probe(ctx, env.Exec, from.Namespace, from.Name, []wire.Target{
			{Address: address, Port: port, Protocol: protocol, Token: token},
		})
		if err != nil {
			return "", err
		}
		switch r, tried := results[token]; {
		case !tried:
			return "", errors.New("it was not tried")
		case r.Answered:
			return fmt.Sprintf("%s answered", r.Answerer), nil
		case r.Connected:
			return "connected", nil
		}
		return "", nil
	}
}

// forges lets a pod send frames written by hand (netprobe forge). The attacker has it if the victim sees one. Frames of a
// port keep their order: once a later honest one has arrived at a neighbour, a forged one would have, too.
func forges(t *testing.T, from, victim, neighbour *corev1.Pod, args ...string) attempt {
	t.Helper()
	own, next := cluster.AttachmentOf(t, from), cluster.AttachmentOf(t, neighbour)
	honest := []string{"-source", own.Addresses[0].Addr().String(), "-target", next.Addresses[0].Addr().String(), "-target-mac", next.MAC}
	send := func(ctx context.Context, args ...string) (token string, err error) {
		if token, err = matrix.NewToken(); err == nil {
			_, err = env.Exec(ctx, from.Namespace, from.Name, nil, append([]string{matrix.Program, "forge", "-token", token}, args...)...)
		}
		return token, err
	}
	return func(ctx context.Context) (string, error) {
		forged, err := send(ctx, args...)
		if err != nil {
			return "", err
		}
		last, err := send(ctx, honest...)
		if err != nil {
			return "", err
		}
		for {
			err := env.Saw(ctx, neighbour, last)
			if err == nil {
				break
			}
			if !errors.Is(err, cluster.ErrUnseen) {
				return "", err
			}
			if err := pause(ctx, fmt.Errorf("the honest frame does not arrive at %s", neighbour.Name)); err != nil {
				return "", err
			}
		}
		switch err := env.Saw(ctx, victim, forged); {
		case err == nil:
			return fmt.Sprintf("%s/%s saw the frame", victim.Namespace, victim.Name), nil
		case !errors.Is(err, cluster.ErrUnseen):
			return "", err
		}
		return "", nil
	}
}
