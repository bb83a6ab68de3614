//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/tier"
)

// TestDownAfterCrash kills `up`, in make test-all at several moments, then checks that down leaves nothing. It uses a second sandbox,
// which must not disturb the first.
func TestDownAfterCrash(t *testing.T) {
	options := env.Options
	options.Name, options.State, options.Nodes = "atollcrash", "/var/lib/atoll-sandbox-crash", 1
	t.Cleanup(func() { checkDown(t, options) })
	moments := []time.Duration{3 * time.Second}
	if tier.All() {
		moments = []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second, 5 * time.Second}
	}
	for _, after := range moments {
		t.Run(after.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			var out bytes.Buffer
			// A context that ends kills with SIGKILL.
			up := exec.CommandContext(ctx, options.Program, "up", "--nodes=1", "--name="+options.Name, "--state="+options.State)
			up.Stdout, up.Stderr = &out, &out
			up.WaitDelay = time.Second
			err := up.Run()
			if ctx.Err() == nil && err != nil {
				t.Fatalf("up failed by itself: %v\n%s", err, out.String())
			}
			if status, ok := up.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Logf("up was done before the signal came: %v", up.ProcessState)
			}
			left, err := sandbox.Leftovers(options)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("the crash left %d things", len(left))
			checkDown(t, options)
		})
	}
	pods := examplePods(t)
	if len(pods) == 0 {
		t.Error("the other sandbox has lost its pods")
	}
	env.checkMatrix(t, matrixWithin)
}

// checkDown takes a sandbox down, twice, after which nothing of it is left.
func checkDown(t *testing.T, options sandbox.Options) {
	t.Helper()
	if err := cluster.RemoveAll(options); err != nil {
		t.Error(err)
	}
}
