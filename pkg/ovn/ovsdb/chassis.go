package ovsdb

import (
	"context"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// tablePrivate has what a chassis alone writes of itself, ovn-sb(5).
const tablePrivate = "Chassis_Private"

// Chassis is a node as the southbound database knows it.
type Chassis struct {
	// Name is the chassis', which OVN's role holds to the certificate of its node. Hostname is what the node says of its machine; it may
	// be empty.
	Name, Hostname string
}

// ChassisTable reads chassis of the southbound database, and deletes them. It keeps no mirror. It needs a connection with all rights.
type ChassisTable struct{ client client.Client }

// OpenChassis connects to any of the servers.
func OpenChassis(ctx context.Context, cfg Config) (*ChassisTable, error) {
	if cfg.Find != nil {
		var err error
		if cfg.Addresses, err = cfg.Find(ctx); err != nil {
			return nil, fmt.Errorf("find %s: %w", southboundName, err)
		}
	}
	c, err := connectSouthbound(ctx, cfg, map[string]model.Model{tableChassis: &chassisRow{}})
	if err != nil {
		return nil, err
	}
	return &ChassisTable{c}, nil
}

// Close ends the connection.
func (t *ChassisTable) Close() { t.client.Close() }

// List reads all chassis.
func (t *ChassisTable) List(ctx context.Context) ([]Chassis, error) {
	results, err := ask(ctx, t.client, []ovsdb.Operation{selectChassis()})
	if err != nil {
		return nil, fmt.Errorf("read chassis: %w", err)
	}
	return chassisOf(results[0]), nil
}

// ListAll reads all chassis, and the rows of Chassis_Private whose chassis is gone. Of these only the name is known. A row stays alone when
// somebody deletes its chassis and nothing else: by OVN's role a node may do so with its own, and ovn-sbctl destroy does.
func (t *ChassisTable) ListAll(ctx context.Context) ([]Chassis, error) {
	results, err := ask(ctx, t.client, []ovsdb.Operation{
		selectChassis(), {Op: ovsdb.OperationSelect, Table: tablePrivate, Columns: []string{"name"}, Where: []ovsdb.Condition{}},
	})
	if err != nil {
		return nil, fmt.Errorf("read chassis: %w", err)
	}
	out := chassisOf(results[0])
	known := make(map[string]struct{}, len(out))
	for _, c := range out {
		known[c.Name] = struct{}{}
	}
	for _, c := range chassisOf(results[1]) {
		if _, is := known[c.Name]; !is {
			out = append(out, c)
		}
	}
	return out, nil
}

func selectChassis() ovsdb.Operation {
	return ovsdb.Operation{Op: ovsdb.OperationSelect, Table: tableChassis, Columns: []string{"name", "hostname"}, Where: []ovsdb.Condition{}}
}

func chassisOf(result ovsdb.OperationResult) (out []Chassis) {
	for _, row := range result.Rows {
		name, _ := row["name"].(string)
		hostname, _ := row["hostname"].(string)
		out = append(out, Chassis{Name: name, Hostname: hostname})
	}
	return out
}

// Delete deletes a chassis and what it wrote of itself; its encapsulations go with it, and ports that it has bound are unbound.
// One that is not there is no error.
func (t *ChassisTable) Delete(ctx context.Context, name string) error {
	return deleteChassis(ctx, t.client, name)
}

func deleteChassis(ctx context.Context, c client.Client, name string) error {
	named := []ovsdb.Condition{ovsdb.NewCondition("name", ovsdb.ConditionEqual, name)}
	if _, err := ask(ctx, c, []ovsdb.Operation{
		{Op: ovsdb.OperationDelete, Table: tablePrivate, Where: named},
		{Op: ovsdb.OperationDelete, Table: tableChassis, Where: named},
	}); err != nil {
		return fmt.Errorf("delete chassis %s: %w", name, err)
	}
	return nil
}
