//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/nb"
)

// northbound reads the OVN northbound database from outside, with a connection of its own. It asks anew each time:
// damage that is repaired at once can be missed by a monitor, but not by a read that follows it.
type northbound struct{ client client.Client }

func dialNorthbound(ctx context.Context, address string) (*northbound, error) {
	tables := map[string]model.Model{}
	for _, t := range nb.Tables() {
		tables[string(t.Table)] = t.New()
	}
	db, err := model.NewClientDBModel(nb.DatabaseName, tables)
	if err != nil {
		return nil, fmt.Errorf("describe the northbound database: %w", err)
	}
	quiet := logr.Discard()
	c, err := client.NewOVSDBClient(db, client.WithEndpoint(address), client.WithLogger(&quiet),
		client.WithReconnect(time.Second, backoff.NewConstantBackOff(100*time.Millisecond)))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if err := c.Connect(ctx); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &northbound{client: c}, nil
}

func (n *northbound) close() { n.client.Close() }

// rows are all rows of the tables that Atoll writes, whoever they belong to.
func (n *northbound) rows(t *testing.T) []nb.Row {
	t.Helper()
	ctx, cancel := afterTest()
	defer cancel()
	var selects []ovsdb.Operation
	for _, table := range nb.Tables() {
		selects = append(selects, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: string(table.Table), Where: []ovsdb.Condition{}})
	}
	results, err := n.client.Transact(ctx, selects...)
	if err != nil || len(results) < len(selects) {
		t.Fatalf("read the northbound database: %v, %+v", err, results)
	}
	db := n.client.Cache().DatabaseModel()
	var rows []nb.Row
	for i, table := range nb.Tables() {
		for _, values := range results[i].Rows {
			id, ok := values["_uuid"].(ovsdb.UUID)
			if !ok {
				t.Fatalf("a row of %s has no UUID: %v", table.Table, values)
			}
			m, err := model.CreateModel(db, string(table.Table), &values, id.GoUUID)
			if err != nil {
				t.Fatalf("read a row of %s: %v", table.Table, err)
			}
			row, ok := m.(nb.Row)
			if !ok {
				t.Fatalf("a row of %s is a %T", table.Table, m)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// dump is the example's rows, and the nodes', by table and UUID, in a form in which equal rows are equal strings. It
// leaves out what says of itself that it belongs to another Network, and pods and Services in the default one: other
// tests come and go.
func (n *northbound) dump(t *testing.T) map[string]string {
	t.Helper()
	rows := map[string]string{}
	for _, row := range n.rows(t) {
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
		rows[string(row.Table())+" "+row.ID()] = string(text)
	}
	return rows
}

// settled is a dump when nothing is kept any more of what virtual addresses led to before a change, which goes by itself.
func (n *northbound) settled(t *testing.T) map[string]string {
	t.Helper()
	eventually(t, patience, "nothing kept of former backends", func(context.Context) error {
		for _, row := range n.rows(t) {
			lb, is := row.(*nb.LoadBalancer)
			if is && (strings.HasSuffix(lb.Name, ":former") || strings.HasSuffix(lb.Name, ":left")) && len(lb.Vips) > 0 &&
				slices.Contains([]string{"red", "blue"}, lb.ExternalIDs[nb.KeyNetwork]) {
				return fmt.Errorf("%s: %v", lb.Name, lb.Vips)
			}
		}
		return nil
	})
	return n.dump(t)
}

// countOf counts the rows of a Network.
func (n *northbound) countOf(t *testing.T, network string) int {
	t.Helper()
	count := 0
	for _, row := range n.rows(t) {
		if row.Owned()[nb.KeyNetwork] == network {
			count++
		}
	}
	return count
}

// podPorts are the names of the switch ports that are not routers', sorted.
func (n *northbound) podPorts(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, row := range n.rows(t) {
		if p, ok := row.(*nb.LogicalSwitchPort); ok && strings.HasPrefix(p.Owned()[nb.KeyOwner], "Pod/") {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// group is the UUID of a Network's Load_Balancer_Group.
func (n *northbound) group(t *testing.T, network string) string {
	t.Helper()
	for _, row := range n.rows(t) {
		if g, ok := row.(*nb.LoadBalancerGroup); ok && g.Owned()[nb.KeyNetwork] == network {
			return g.UUID
		}
	}
	t.Fatalf("Network %s has no load balancer group", network)
	return ""
}

// leads is the name of the load balancer that leads an address elsewhere.
func (n *northbound) leads(t *testing.T, address string) string {
	t.Helper()
	for _, row := range n.rows(t) {
		if lb, ok := row.(*nb.LoadBalancer); ok && lb.Vips[address] != "" {
			return lb.Name
		}
	}
	t.Fatalf("no load balancer has %s", address)
	return ""
}

// port finds a switch port by name.
func (n *northbound) port(t *testing.T, name string) *nb.LogicalSwitchPort {
	t.Helper()
	for _, row := range n.rows(t) {
		if p, ok := row.(*nb.LogicalSwitchPort); ok && p.Name == name {
			return p
		}
	}
	return nil
}
