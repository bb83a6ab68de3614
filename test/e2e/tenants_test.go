//go:build e2e

package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// TestTenantsExample: every pod of three tenants reaches what the tables of the example's page say, and is seen as they say: others by the
// addresses that Kubernetes knows, Services, and names.
func TestTenantsExample(t *testing.T) {
	t.Parallel()
	env.applyTenants(t)
	page, err := os.ReadFile(filepath.Join(env.Root, tenants.Page))
	if err != nil {
		t.Fatal(err)
	}
	want, err := tenants.Want(string(page))
	if err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, cluster.Patience, "the tables of "+tenants.Page, func(ctx context.Context) error {
		got, err := tenants.Observe(ctx, env.Exec, env.Clients.Kube)
		if err != nil {
			return err
		}
		if wrong := tenants.Compare(got, want); len(wrong) > 0 {
			return errors.New(strings.Join(wrong, "\n"))
		}
		return nil
	})
}
