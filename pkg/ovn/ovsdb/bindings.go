package ovsdb

import (
	"context"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Bound is how far OVN is with a logical port.
type Bound struct {
	// Claimed: a chassis has bound the port.
	Claimed bool
	// Up: that chassis has its flows.
	Up bool
}

// Asked are the logical ports that were asked for on a chassis, by name; registered reports whether the database has such a
// chassis. It costs the server a look at each of its port bindings.
func (r *Reader) Asked(ctx context.Context, chassis string) (ports map[string]Bound, registered bool, err error) {
	is := func(column string) []ovsdb.Condition {
		return []ovsdb.Condition{{Column: column, Function: ovsdb.ConditionEqual, Value: chassis}}
	}
	results, err := r.ask(ctx, []ovsdb.Operation{
		{
			Op: ovsdb.OperationSelect, Table: tableBinding, Columns: []string{"logical_port", "chassis", "up"},
			Where: []ovsdb.Condition{includes("options", "requested-chassis", chassis)},
		},
		{Op: ovsdb.OperationSelect, Table: tableChassis, Columns: []string{"_uuid"}, Where: is("hostname")},
		{Op: ovsdb.OperationSelect, Table: tableChassis, Columns: []string{"_uuid"}, Where: is("name")},
	})
	if err != nil {
		return nil, false, fmt.Errorf("read port bindings: %w", err)
	}
	ports = map[string]Bound{}
	for _, row := range results[0].Rows {
		if name, ok := row["logical_port"].(string); ok {
			_, claimed := row["chassis"].(ovsdb.UUID)
			up, _ := row["up"].(bool)
			ports[name] = Bound{Claimed: claimed, Up: up}
		}
	}
	return ports, len(results[1].Rows)+len(results[2].Rows) > 0, nil
}
