package cluster

import (
	"context"
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

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Northbound reads the OVN northbound database from outside, with a connection of its own. It asks anew each time:
// damage that is repaired at once can be missed by a monitor, but not by a read that follows it.
type Northbound struct{ client client.Client }

func dialNorthbound(ctx context.Context, address string) (*Northbound, error) {
	tables := map[string]model.Model{}
	for _, t := range nb.Tables() {
		tables[t.Table.String()] = t.New()
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
	return &Northbound{client: c}, nil
}

// Close ends the connection.
func (n *Northbound) Close() { n.client.Close() }

// Rows are all rows of the tables that Atoll writes, whoever they belong to.
func (n *Northbound) Rows(t *testing.T) []nb.Row {
	t.Helper()
	ctx, cancel := AfterTest()
	defer cancel()
	var selects []ovsdb.Operation
	for _, table := range nb.Tables() {
		selects = append(selects, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: table.Table.String(), Where: []ovsdb.Condition{}})
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
			m, err := model.CreateModel(db, table.Table.String(), &values, id.GoUUID)
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

// CountOf counts the rows of a Network.
func (n *Northbound) CountOf(t *testing.T, network string) int {
	t.Helper()
	count := 0
	for _, row := range n.Rows(t) {
		if row.Owned()[nb.KeyNetwork] == network {
			count++
		}
	}
	return count
}

// PodPorts are the names of the switch ports that are not routers', sorted.
func (n *Northbound) PodPorts(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, row := range n.Rows(t) {
		if p, ok := row.(*nb.LogicalSwitchPort); ok && strings.HasPrefix(p.Owned()[nb.KeyOwner], "Pod/") {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Group is the UUID of a Network's Load_Balancer_Group.
func (n *Northbound) Group(t *testing.T, network string) string {
	t.Helper()
	for _, row := range n.Rows(t) {
		if g, ok := row.(*nb.LoadBalancerGroup); ok && g.Owned()[nb.KeyNetwork] == network {
			return g.UUID
		}
	}
	t.Fatalf("Network %s has no load balancer group", network)
	return ""
}

// Leads is the name of the load balancer that leads an address elsewhere.
func (n *Northbound) Leads(t *testing.T, address string) string {
	t.Helper()
	for _, row := range n.Rows(t) {
		if lb, ok := row.(*nb.LoadBalancer); ok && lb.Vips[address] != "" {
			return lb.Name
		}
	}
	t.Fatalf("no load balancer has %s", address)
	return ""
}

// Port finds a switch port by name.
func (n *Northbound) Port(t *testing.T, name string) *nb.LogicalSwitchPort {
	t.Helper()
	for _, row := range n.Rows(t) {
		if p, ok := row.(*nb.LogicalSwitchPort); ok && p.Name == name {
			return p
		}
	}
	return nil
}

// RouterMAC is the MAC address of a router's port.
func (c *Cluster) RouterMAC(t *testing.T, port string) string {
	t.Helper()
	for _, row := range c.NB.Rows(t) {
		if p, ok := row.(*nb.LogicalRouterPort); ok && p.Name == port {
			return p.MAC
		}
	}
	t.Fatalf("there is no router port %s", port)
	return ""
}
