package snapshot

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	ovn "github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// Northbound is what the northbound database holds. An ovsdb.Session is one.
type Northbound interface {
	plan.Actual
	Rows(nb.Table) []nb.Row
}

// Selector reads rows of a database: one result for each operation. An ovsdb.Asker is one.
type Selector interface {
	Select(ctx context.Context, selects ...ovsdb.Operation) ([][]ovsdb.Row, error)
}

// The tables that are read.
const (
	TableRouter  = "Logical_Router"
	TableSwitch  = "Logical_Switch"
	TablePort    = "Logical_Switch_Port"
	TableBinding = "Port_Binding"
	TableChassis = "Chassis"
)

// Bindings are the bindings of all ordinary ports, by their names.
func Bindings(ctx context.Context, southbound Selector) (map[string]ovn.Binding, error) {
	found, err := southbound.Select(ctx,
		ovn.SelectRows(TableChassis, []string{"_uuid", "name", "hostname"}),
		ovn.SelectRows(TableBinding, []string{"logical_port", "chassis", "up"}, ovn.Equal("type", "")))
	if err != nil {
		return nil, err
	}
	chassis := make(map[string]ovsdb.Row, len(found[0]))
	for _, row := range found[0] {
		chassis[ovn.Text(row, "_uuid")] = row
	}
	out := make(map[string]ovn.Binding, len(found[1]))
	for _, row := range found[1] {
		on := chassis[ovn.Text(row, "chassis")]
		out[ovn.Text(row, "logical_port")] = ovn.Binding{Chassis: ovn.Text(on, "name"), Hostname: ovn.Text(on, "hostname"), Up: ovn.Is(row, "up")}
	}
	return out, nil
}

// NotAnswering does not say where the database is: that is for who may ask how the cluster is.
func NotAnswering(database string) string { return "the " + database + " database does not answer" }

// Printable keeps what somebody wrote into a database from moving the cursor of whoever reads it.
func Printable(value string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, value)
}

const (
	// DatabaseTime is how long a database may take to answer: a member that is away must not hide what the others say.
	DatabaseTime = 3 * time.Second
	// MirrorPatience is how long a database may take to be read as a whole.
	MirrorPatience = 20 * time.Second
)

// BoundOn reports whether the chassis that has bound a port is a node's. It may be called like the node, or its host: ovn-controller
// takes either for requested-chassis.
// (ovn-nb(5).) The host is what the chassis says of itself, and no word against its name when that is another node's: OVN's role holds
// names to certificates.
func BoundOn(b ovn.Binding, node string, nodes map[string]*model.Node) bool {
	return b.Chassis == node || b.Hostname == node && nodes[b.Chassis] == nil
}
