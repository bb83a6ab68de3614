//go:build e2e

package e2e

import (
	"context"
	"errors"
	"testing"

	"github.com/atoll-net/atoll/test/demo/ready"
	"github.com/atoll-net/atoll/test/demo/tenants"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// applyTenants makes the tenants of the example, and waits for their pods. They stay: several tests use them, and none changes them.
func (c *suite) applyTenants(t *testing.T) {
	t.Helper()
	c.tenants.Do(func() {
		c.Kubectl(t, "apply", "--server-side", "-f", tenants.Example)
		last := ready.Report{}
		cluster.Eventually(t, cluster.ReadyWithin, "the example of tenants is Ready", func(ctx context.Context) (err error) {
			if last, err = c.Clients.Look(ctx, tenants.Networks(), tenants.Namespaces()); err == nil && !last.Done() {
				err = errors.New(last.String())
			}
			return err
		})
	})
}
