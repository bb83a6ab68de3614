//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/demo/ready"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

const (
	example  = "docs/examples/two-networks"
	selector = "example=two-networks"
)

// suite is the sandbox with what only these tests ask of it.
type suite struct {
	*cluster.Cluster
	// tenants: the example of tenants is there.
	tenants sync.Once
}

// env is set by TestMain before any test runs.
var env *suite

func TestMain(m *testing.M) {
	cluster.Main(m, func(ctx context.Context, c *cluster.Cluster) error {
		env = &suite{Cluster: c}
		return env.applyExample(ctx)
	})
}

// applyExample makes the two Networks of the example, and waits for their pods.
func (c *suite) applyExample(ctx context.Context) error {
	if out, err := c.Program(ctx, "kubectl", "apply", "--server-side", "-f", example).CombinedOutput(); err != nil {
		return fmt.Errorf("apply the example: %w\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(ctx, 6*time.Minute)
	defer cancel()
	last := ""
	return c.Clients.Wait(ctx, []string{"red", "blue"}, []string{"red", "blue"}, func(r ready.Report) {
		if s := r.String(); s != last {
			fmt.Println(s)
			last = s
		}
	})
}
