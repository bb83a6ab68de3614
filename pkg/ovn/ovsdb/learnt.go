package ovsdb

import (
	"context"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// UnusedTables are those that any node may add rows to by OVN's role, and that nobody has a use for in a database of Atoll's: no
// switch learns where MAC addresses are or snoops multicast, no load balancer tells of events, and no router learns routes. The
// role lets nodes write the last since OVN 25.03.2.
func UnusedTables() []string {
	return []string{"FDB", "IGMP_Group", "Controller_Event", "Learned_Route"}
}

// TableNeighbours has what routers have learnt of neighbours. Any node may write it, too, and routers need it.
const TableNeighbours = "MAC_Binding"

// ClearUnused deletes all rows of unused tables, and says how many there were.
func (t *ChassisTable) ClearUnused(ctx context.Context) (map[string]int, error) {
	// libovsdb leaves out a list of conditions that is empty, which a server does not take: this one is true of every row.
	all := []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionNotEqual, ovsdb.UUID{GoUUID: "00000000-0000-0000-0000-000000000000"})}
	var ops []ovsdb.Operation
	var tables []string
	schema := t.client.Schema()
	for _, table := range UnusedTables() {
		if schema.Table(table) == nil {
			continue // An older OVN has no such table.
		}
		tables = append(tables, table)
		ops = append(ops, ovsdb.Operation{Op: ovsdb.OperationDelete, Table: table, Where: all})
	}
	results, err := ask(ctx, t.client, ops)
	if err != nil {
		return nil, fmt.Errorf("clear tables that nobody uses: %w", err)
	}
	out := map[string]int{}
	for i, table := range tables {
		out[table] = results[i].Count
	}
	return out, nil
}
