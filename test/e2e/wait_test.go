//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
)

// waitRows waits until the example's northbound rows are exactly want.
func (c *suite) waitRows(t *testing.T, within time.Duration, want map[string]string) {
	t.Helper()
	cluster.Eventually(t, within, "the same northbound rows", func(context.Context) error {
		if got := c.dump(t); !maps.Equal(want, got) {
			return fmt.Errorf("difference (-want +got):\n%s", cmp.Diff(want, got))
		}
		return nil
	})
}

// checkMatrix probes the example's pods until the matrix is as expected, which after a fault takes as long as
// OVN takes. A leak is never forgiven.
func (c *suite) checkMatrix(t *testing.T, within time.Duration) {
	t.Helper()
	cluster.Eventually(t, within, "the matrix as expected", func(ctx context.Context) error {
		pods, err := matrix.List(ctx, c.Clients.Kube, selector)
		if err != nil {
			return err
		}
		m, err := matrix.Run(ctx, c.Exec, pods)
		if err != nil {
			return err
		}
		verdict := m.Verdict()
		if verdict.OK() {
			t.Log(verdict)
			return c.CheckDatabases(ctx)
		}
		if m.Count(matrix.Leaked) > 0 {
			t.Fatalf("a packet crossed Networks: %q", verdict.Failures)
		}
		return fmt.Errorf("%s: %q", verdict, verdict.Failures)
	})
}
