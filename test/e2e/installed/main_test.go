//go:build e2e

package installed

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/demo/ready"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

const (
	example  = "docs/examples/two-networks"
	selector = "example=two-networks"
	system   = "atoll-system"
	// installWithin is how long the installation may take: three members join one after another, on a machine that does much else.
	installWithin = 5 * time.Minute
)

// env is set by TestMain before any test runs.
var env *cluster.Cluster

func TestMain(m *testing.M) {
	cluster.MainBare(m, func(ctx context.Context, c *cluster.Cluster) error {
		env = c
		ctx, cancel := context.WithTimeout(ctx, installWithin)
		defer cancel()
		if err := install(ctx); err != nil {
			return err
		}
		return applyExample(ctx)
	})
}

// install is what the overlay says that a user does.
func install(ctx context.Context) error {
	began := time.Now()
	for _, words := range [][]string{
		{"apply", "--server-side", "-k", "dist/crds"},
		{"wait", "--for=condition=Established", "crd", "-l", "app.kubernetes.io/part-of=atoll", "--timeout=60s"},
		{"apply", "--server-side", "-k", "dist/overlays/sandbox"},
		{"rollout", "status", "-n", system, "daemonset/atoll-ovn-central", "--timeout=4m"},
		{"rollout", "status", "-n", system, "daemonset/atoll-ovn-node", "--timeout=4m"},
		{"rollout", "status", "-n", system, "daemonset/atoll-agent", "--timeout=4m"},
		{"wait", "--for=condition=Ready", "node", "--all", "--timeout=4m"},
	} {
		if out, err := kubectl(ctx, words...); err != nil {
			state, _ := kubectl(ctx, "get", "pods", "-A", "-o", "wide")
			return fmt.Errorf("kubectl %v: %w\n%s\n%s", words, err, out, state)
		}
		fmt.Printf("%6.1f s  kubectl %v\n", time.Since(began).Seconds(), words)
	}
	return nil
}

func kubectl(ctx context.Context, words ...string) (string, error) {
	out, err := env.Program(ctx, append([]string{"kubectl"}, words...)...).CombinedOutput()
	return string(out), err
}

// applyExample makes the two Networks of the example, and waits for their pods.
func applyExample(ctx context.Context) error {
	if out, err := kubectl(ctx, "apply", "--server-side", "-f", example); err != nil {
		return fmt.Errorf("apply the example: %w\n%s", err, out)
	}
	return env.Clients.Wait(ctx, []string{"red", "blue"}, []string{"red", "blue"}, func(ready.Report) {})
}
