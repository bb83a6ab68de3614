//go:build e2e

package e2e

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/sandbox"
)

// TestMatrixSeesALeak makes a real leak, to show that the matrix would find one: with the controller stopped, a
// pod's port is moved from blue's switch to red's. The controller, started again, moves it back.
func TestMatrixSeesALeak(t *testing.T) {
	pods, err := matrix.List(t.Context(), env.Clients.Kube, selector)
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string][]netip.Addr{}
	for _, p := range pods {
		addresses[p.Network] = append(addresses[p.Network], p.Address)
	}
	front := netip.MustParsePrefix("10.0.0.0/24")
	moved := slices.IndexFunc(pods, func(p matrix.Pod) bool {
		return p.Network == "blue" && front.Contains(p.Address) && !slices.Contains(addresses["red"], p.Address)
	})
	if moved < 0 {
		t.Fatalf("blue has no pod in front with an address of its own: %v", addresses)
	}
	rows := env.settled(t)
	port := env.NB.Port(t, pods[moved].String())
	start := env.Stop(t, cluster.Daemon{Place: sandbox.Central, Name: "atoll-controller"})
	env.NBCtl(t, "remove", "Logical_Switch", "blue/front", "ports", port.UUID, "--", "add", "Logical_Switch", "red/front", "ports", port.UUID)

	leaks := func(ctx context.Context) (int, error) {
		m, err := matrix.Run(ctx, env.Exec, pods)
		if err != nil {
			return 0, err
		}
		if count := m.Count(matrix.Leaked); count == 0 || !m.Verdict().OK() {
			return count, nil
		}
		t.Fatal("the matrix passes a leak")
		return 0, nil
	}
	cluster.Eventually(t, matrixWithin, "the matrix shows the leak", func(ctx context.Context) error {
		count, err := leaks(ctx)
		if err == nil && count == 0 {
			err = errors.New("no leak seen")
		}
		t.Logf("%d paths leak", count)
		return err
	})
	start()
	env.waitRows(t, cluster.Patience, rows)
	cluster.Eventually(t, recoverWithin, "the leak closed", func(ctx context.Context) error {
		count, err := leaks(ctx)
		if err == nil && count > 0 {
			err = errors.New("there are leaks still")
		}
		return err
	})
	env.checkMatrix(t, recoverWithin)
}
