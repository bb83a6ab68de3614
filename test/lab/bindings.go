package lab

import (
	"context"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
)

// binding is what we look at of a port in the southbound database. The client wants all columns that the database has an index of.
type binding struct {
	UUID     string `ovsdb:"_uuid"`
	Port     string `ovsdb:"logical_port"`
	Datapath string `ovsdb:"datapath"`
	Number   int    `ovsdb:"tunnel_key"`
}

// CloneModel implements model.CloneableModel.
func (b *binding) CloneModel() model.Model { c := *b; return &c }

// CloneModelInto implements model.CloneableModel.
func (b *binding) CloneModelInto(to model.Model) {
	if to, ok := to.(*binding); ok {
		*to = *b
	}
}

// EqualsModel implements model.ComparableModel.
func (b *binding) EqualsModel(other model.Model) bool {
	o, ok := other.(*binding)
	return ok && *b == *o
}

// WatchBindings follows the ports of the southbound database, where ovn-northd writes a port and its logical flows in one transaction. The
// caller closes it.
func (l *Lab) WatchBindings(ctx context.Context) (*Ports, error) {
	const table = "Port_Binding"
	c, err := connect(ctx, l.Database.SBAddress(), "OVN_Southbound", map[string]model.Model{table: &binding{}})
	if err != nil {
		return nil, err
	}
	p := newPorts(c, func(m model.Model) (string, bool) {
		if row, ok := m.(*binding); ok {
			return row.Port, true
		}
		return "", false
	})
	row := &binding{}
	if _, err := c.Monitor(ctx, c.NewMonitor(client.WithTable(row, &row.Port, &row.Datapath, &row.Number))); err != nil {
		c.Close()
		return nil, fmt.Errorf("monitor ports of the southbound database: %w", err)
	}
	return p, nil
}
