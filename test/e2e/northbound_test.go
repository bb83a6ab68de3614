//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// dump is the example's rows, and the nodes', by table and UUID, in a form in which equal rows are equal strings. It
// leaves out what says of itself that it belongs to another Network, and pods and Services in the default one: other
// tests come and go.
func (c *suite) dump(t *testing.T) map[string]string {
	t.Helper()
	rows := map[string]string{}
	for _, row := range c.NB.Rows(t) {
		owner, _, _ := strings.Cut(row.Owned()[nb.KeyOwner], "/")
		switch network := row.Owned()[nb.KeyNetwork]; network {
		case "", "red", "blue":
		case "default":
			if owner != "Node" {
				continue
			}
		default:
			continue
		}
		switch r := row.(type) {
		case *nb.LogicalRouter:
			slices.Sort(r.Ports)
			slices.Sort(r.StaticRoutes)
			slices.Sort(r.LoadBalancerGroups)
		case *nb.LogicalSwitch:
			slices.Sort(r.Ports)
			slices.Sort(r.LoadBalancerGroups)
		case *nb.LoadBalancerGroup:
			slices.Sort(r.LoadBalancers)
		case *nb.LogicalRouterPort:
			slices.Sort(r.Networks)
		case *nb.LogicalSwitchPort:
			slices.Sort(r.Addresses)
			slices.Sort(r.PortSecurity)
		}
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		rows[row.Table().String()+" "+row.ID()] = string(text)
	}
	return rows
}

// settled is a dump when nothing is kept any more of what virtual addresses led to before a change, which goes by itself.
func (c *suite) settled(t *testing.T) map[string]string {
	t.Helper()
	cluster.Eventually(t, cluster.Patience, "nothing kept of former backends", func(context.Context) error {
		for _, row := range c.NB.Rows(t) {
			lb, is := row.(*nb.LoadBalancer)
			if is && (strings.HasSuffix(lb.Name, ":former") || strings.HasSuffix(lb.Name, ":left")) && len(lb.Vips) > 0 &&
				slices.Contains([]string{"red", "blue"}, lb.ExternalIDs[nb.KeyNetwork]) {
				return fmt.Errorf("%s: %v", lb.Name, lb.Vips)
			}
		}
		return nil
	})
	return c.dump(t)
}
