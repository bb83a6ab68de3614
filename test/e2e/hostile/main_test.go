//go:build e2e

package hostile

import (
	"context"
	"testing"

	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// env is set by TestMain before any test runs.
var env *cluster.Cluster

func TestMain(m *testing.M) {
	cluster.Main(m, func(ctx context.Context, c *cluster.Cluster) error {
		env = c
		return enter(ctx)
	})
}
