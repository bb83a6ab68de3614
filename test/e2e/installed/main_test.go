//go:build e2e

package installed

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

var (
	// env is set by TestMain before any test runs.
	env *cluster.Cluster
	// bare is what was on each node before the installation.
	bare map[string][]string
)

func TestMain(m *testing.M) {
	cluster.MainBare(m, func(ctx context.Context, c *cluster.Cluster) error {
		env = c
		ctx, cancel := context.WithTimeout(ctx, installWithin)
		defer cancel()
		var err error
		if bare, err = env.Traces(ctx); err != nil {
			return err
		}
		if err := install(ctx); err != nil {
			return err
		}
		return applyExample(ctx)
	})
}

// install does what a user does. The kustomization has the sandbox's addresses in place of the user's.
func install(ctx context.Context) error {
	if out, err := atoll(ctx, "install", "-k", filepath.Join(env.Root, "dist/overlays/sandbox"),
		"--timeout="+installWithin.String()); err != nil {
		state, _ := kubectl(ctx, "get", "pods", "-A", "-o", "wide")
		return fmt.Errorf("atoll install: %w\n%s\n%s", err, out, state)
	}
	return nil
}

// atoll runs the command line as the cluster's administrator, where the API server can be reached. What it prints is shown as it
// comes, and returned.
func atoll(ctx context.Context, words ...string) (string, error) {
	var out bytes.Buffer
	err := env.Atoll(ctx, io.MultiWriter(os.Stdout, &out), words...)
	return out.String(), err
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
