package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/lab"
)

// rows are logical switch ports as they are in the database, and the switch that has each, by UUID.
type rows struct {
	ports    map[string]*nb.LogicalSwitchPort
	switches map[string]string
}

func tables() map[string]model.Model {
	return map[string]model.Model{
		nb.TableLogicalSwitch.String():     &nb.LogicalSwitch{},
		nb.TableLogicalSwitchPort.String(): &nb.LogicalSwitchPort{},
	}
}

// readRows reads ports.
func (s *scale) readRows(ctx context.Context, uuids []string) (rows, error) {
	out := rows{map[string]*nb.LogicalSwitchPort{}, map[string]string{}}
	c, err := lab.Connect(ctx, s.Database.NBAddress(), tables())
	if err != nil {
		return out, err
	}
	defer c.Close()
	sw, port := &nb.LogicalSwitch{}, &nb.LogicalSwitchPort{}
	columns := c.NewMonitor(
		client.WithTable(sw, &sw.Name, &sw.Ports),
		client.WithTable(port, &port.Name, &port.Type, &port.Addresses, &port.PortSecurity, &port.Options, &port.ExternalIDs),
	)
	if _, err := c.Monitor(ctx, columns); err != nil {
		return out, fmt.Errorf("read rows: %w", err)
	}
	for _, uuid := range uuids {
		row, ok := c.Cache().Table(nb.TableLogicalSwitchPort.String()).Row(uuid).(*nb.LogicalSwitchPort)
		if !ok {
			return out, fmt.Errorf("read rows: port %s is not there", uuid)
		}
		out.ports[uuid] = row
	}
	for uuid, m := range c.Cache().Table(nb.TableLogicalSwitch.String()).RowsShallow() {
		for _, member := range m.(*nb.LogicalSwitch).Ports {
			if out.ports[member] != nil {
				out.switches[member] = uuid
			}
		}
	}
	return out, nil
}

func (r rows) equal(other rows) bool {
	for uuid, row := range r.ports {
		if o := other.ports[uuid]; o == nil || !row.EqualsModel(o) || r.switches[uuid] != other.switches[uuid] {
			return false
		}
	}
	return len(r.ports) == len(other.ports)
}

// write writes rows with nothing but the client, in the batches given, and says how many it wrote per second.
func (r rows) write(ctx context.Context, c client.Client, batches [][]string) (float64, error) {
	start, written := time.Now(), 0
	for _, batch := range batches {
		var insert []ovsdb.Operation
		for _, uuid := range batch {
			create, err := c.Create(r.ports[uuid])
			if err != nil {
				return 0, fmt.Errorf("write port: %w", err)
			}
			insert = append(insert, create...)
		}
		join, err := r.change(c, batch, ovsdb.MutateOperationInsert)
		if err != nil {
			return 0, err
		}
		if err := transact(ctx, c, append(insert, join...)); err != nil {
			return 0, err
		}
		written += len(batch)
	}
	return float64(written) / time.Since(start).Seconds(), nil
}

// remove takes ports out of their switches, which is their end.
func (r rows) remove(ctx context.Context, c client.Client, batches [][]string) error {
	for _, batch := range batches {
		leave, err := r.change(c, batch, ovsdb.MutateOperationDelete)
		if err != nil {
			return err
		}
		if err := transact(ctx, c, leave); err != nil {
			return err
		}
	}
	return nil
}

// change puts ports into their switches or takes them out: one operation for each switch.
func (r rows) change(c client.Client, batch []string, how ovsdb.Mutator) ([]ovsdb.Operation, error) {
	members := map[string][]string{}
	for _, uuid := range batch {
		members[r.switches[uuid]] = append(members[r.switches[uuid]], uuid)
	}
	var ops []ovsdb.Operation
	for uuid, ports := range members {
		sw := &nb.LogicalSwitch{UUID: uuid}
		slices.Sort(ports)
		mutate, err := c.Where(sw).Mutate(sw, model.Mutation{Field: &sw.Ports, Mutator: how, Value: ports})
		if err != nil {
			return nil, fmt.Errorf("change switch: %w", err)
		}
		ops = append(ops, mutate...)
	}
	return ops, nil
}

func transact(ctx context.Context, c client.Client, ops []ovsdb.Operation) error {
	answers, err := c.Transact(ctx, ops...)
	if err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	_, err = ovsdb.CheckOperationResults(answers, ops)
	return err
}
