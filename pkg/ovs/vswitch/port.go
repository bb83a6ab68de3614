package vswitch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Port is a port of the bridge that belongs to a pod, or to a porthole.
type Port struct {
	// Name of the port, of its interface, and of the link that it takes.
	Name string
	// IfaceID is the logical switch port's name, IfaceIDVer the pod's UID: ovn-controller binds the port only
	// when both agree with the controller's row.
	IfaceID, IfaceIDVer string
	Pod                 string
	Sandbox             string
	Interface           string
	Netns               string
	// MAC and Addresses are for people to read.
	MAC, Addresses string
	// Porthole is whose port it is when it is not a pod's: a Network's UID, or one of the node's own interfaces. Then
	// nothing is known of a pod.
	Porthole string
	// Taken: ovs-vswitchd has seen the port, and has it or knows why it has not.
	Taken bool
	// Installed: OVN's flows for the port are in place.
	Installed bool
	// Problem is what ovs-vswitchd could not do with the port; empty when there is none.
	Problem string
}

func (p Port) externalIDs() map[string]string {
	if p.Porthole != "" {
		return map[string]string{keyIfaceID: p.IfaceID, keyPorthole: p.Porthole}
	}
	return map[string]string{
		keyIfaceID:     p.IfaceID,
		keyIfaceIDVer:  p.IfaceIDVer,
		keyAttachedMAC: p.MAC,
		keyAddresses:   p.Addresses,
		keyPod:         p.Pod,
		keyPodUID:      p.IfaceIDVer,
		keySandbox:     p.Sandbox,
		keyNetns:       p.Netns,
		keyInterface:   p.Interface,
	}
}

// portOf reads an interface; false when it is not ours.
func portOf(row interfaceRow) (Port, bool) {
	ids := row.ExternalIDs
	p := Port{
		Name:       row.Name,
		IfaceID:    ids[keyIfaceID],
		IfaceIDVer: ids[keyIfaceIDVer],
		Pod:        ids[keyPod],
		Sandbox:    ids[keySandbox],
		Porthole:   ids[keyPorthole],
		Interface:  ids[keyInterface],
		Netns:      ids[keyNetns],
		MAC:        ids[keyAttachedMAC],
		Addresses:  ids[keyAddresses],
		Installed:  ids[keyOVNInstalled] == "true",
		Taken:      row.Ofport != nil || row.Error != nil,
	}
	if row.Error != nil {
		p.Problem = *row.Error
	} else if row.Ofport != nil && *row.Ofport == -1 {
		p.Problem = "ovs-vswitchd refused the interface; its log says why"
	}
	return p, p.Sandbox != "" || p.Porthole != ""
}

// owner is what the row of a port has of its owner.
func (p Port) owner() map[string]string {
	if p.Porthole != "" {
		return map[string]string{keyPorthole: p.Porthole}
	}
	return map[string]string{keySandbox: p.Sandbox, keyPod: p.Pod}
}

// Find returns our port of a name; false when there is none.
func (c *Client) Find(ctx context.Context, name string) (Port, bool, error) {
	if err := c.synced(ctx); err != nil {
		return Port{}, false, err
	}
	row := interfaceRow{Name: name}
	if err := c.ovs.Get(ctx, &row); errors.Is(err, client.ErrNotFound) {
		return Port{}, false, nil
	} else if err != nil {
		return Port{}, false, fmt.Errorf("read interface %s: %w", name, err)
	}
	port, ours := portOf(row)
	return port, ours, c.synced(ctx)
}

// Bound returns our ports that have an iface-id.
func (c *Client) Bound(ctx context.Context, ifaceID string) ([]Port, error) {
	if err := c.synced(ctx); err != nil {
		return nil, err
	}
	var rows []interfaceRow
	key := &interfaceRow{ExternalIDs: map[string]string{keyIfaceID: ifaceID}}
	if err := c.ovs.Where(key).List(ctx, &rows); err != nil && !errors.Is(err, client.ErrNotFound) {
		return nil, fmt.Errorf("find interfaces of %s: %w", ifaceID, err)
	}
	return ours(rows), c.synced(ctx)
}

// List returns the ports of pods, by name.
func (c *Client) List(ctx context.Context) ([]Port, error) {
	ports, err := c.all(ctx)
	return slices.DeleteFunc(ports, func(p Port) bool { return p.Porthole != "" }), err
}

// Portholes returns the ports of portholes and of the node itself, by name.
func (c *Client) Portholes(ctx context.Context) ([]Port, error) {
	ports, err := c.all(ctx)
	return slices.DeleteFunc(ports, func(p Port) bool { return p.Porthole == "" }), err
}

// all returns all our ports, by name.
func (c *Client) all(ctx context.Context) ([]Port, error) {
	if err := c.synced(ctx); err != nil {
		return nil, err
	}
	var rows []interfaceRow
	if err := c.ovs.List(ctx, &rows); err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	return ours(rows), c.synced(ctx)
}

func ours(rows []interfaceRow) []Port {
	ports := make([]Port, 0, len(rows))
	for _, row := range rows {
		if port, ok := portOf(row); ok {
			ports = append(ports, port)
		}
	}
	slices.SortFunc(ports, func(a, b Port) int { return strings.Compare(a.Name, b.Name) })
	return ports
}

// Attach adds a port to the bridge, and in the same transaction removes every port of ours that has its name
// or its iface-id.
func (c *Client) Attach(ctx context.Context, port Port) error {
	bridge, err := c.bridgeRow(ctx)
	if err != nil {
		return err
	}
	older, err := c.Bound(ctx, port.IfaceID)
	if err != nil {
		return err
	}
	if same, found, err := c.Find(ctx, port.Name); err != nil {
		return err
	} else if found && same.IfaceID != port.IfaceID {
		older = append(older, same)
	}
	ops, err := c.detachments(ctx, bridge, older)
	if err != nil {
		return err
	}
	added, err := attachment(bridge, port)
	if err != nil {
		return err
	}
	_, err = c.transact(ctx, append(ops, added...))
	return err
}

// Detach removes ports of ours; one that has gone already is no error.
func (c *Client) Detach(ctx context.Context, ports ...Port) error {
	bridge, err := c.bridgeRow(ctx)
	if err != nil {
		return err
	}
	ops, err := c.detachments(ctx, bridge, ports)
	if err != nil || len(ops) == 0 {
		return err
	}
	_, err = c.transact(ctx, ops)
	return err
}

// attachment is the operations that add a port: Open vSwitch's rows live as long as they are referred to.
func attachment(bridge *bridgeRow, port Port) ([]ovsdb.Operation, error) {
	const newPort, newInterface = "newport", "newinterface"
	ids, err := ovsdb.NewOvsMap(port.externalIDs())
	if err != nil {
		return nil, fmt.Errorf("encode external_ids: %w", err)
	}
	owner, err := ovsdb.NewOvsMap(port.owner())
	if err != nil {
		return nil, fmt.Errorf("encode external_ids: %w", err)
	}
	return []ovsdb.Operation{
		{
			Op: ovsdb.OperationInsert, Table: tableInterface, UUIDName: newInterface,
			Row: ovsdb.Row{"name": port.Name, "external_ids": ids},
		},
		{
			Op: ovsdb.OperationInsert, Table: tablePort, UUIDName: newPort,
			Row: ovsdb.Row{"name": port.Name, "interfaces": ovsdb.UUID{GoUUID: newInterface}, "external_ids": owner},
		},
		mutatePorts(bridge, ovsdb.MutateOperationInsert, []string{newPort}),
	}, nil
}

// detachments is the operations that take ports out of the bridge; none when there is nothing to take out.
func (c *Client) detachments(ctx context.Context, bridge *bridgeRow, ports []Port) ([]ovsdb.Operation, error) {
	var uuids []string
	for _, port := range ports {
		row := portRow{Name: port.Name}
		if err := c.ovs.Get(ctx, &row); errors.Is(err, client.ErrNotFound) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("read port %s: %w", port.Name, err)
		}
		// The same name may have come to someone else meanwhile.
		if row.ExternalIDs[keySandbox] == port.Sandbox && row.ExternalIDs[keyPorthole] == port.Porthole &&
			port.Sandbox+port.Porthole != "" {
			uuids = append(uuids, row.UUID)
		}
	}
	if len(uuids) == 0 {
		return nil, nil
	}
	return []ovsdb.Operation{mutatePorts(bridge, ovsdb.MutateOperationDelete, uuids)}, nil
}

func mutatePorts(bridge *bridgeRow, mutator ovsdb.Mutator, uuids []string) ovsdb.Operation {
	return mutateBridge(bridge, "ports", mutator, uuids)
}

// mutateBridge adds to, or removes from, a column of the bridge that refers to other rows.
func mutateBridge(bridge *bridgeRow, column string, mutator ovsdb.Mutator, uuids []string) ovsdb.Operation {
	set := ovsdb.OvsSet{}
	for _, uuid := range uuids {
		set.GoSet = append(set.GoSet, ovsdb.UUID{GoUUID: uuid})
	}
	return ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: tableBridge,
		Where:     []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: bridge.UUID})},
		Mutations: []ovsdb.Mutation{*ovsdb.NewMutation(column, mutator, set)},
	}
}

// transact runs operations as one transaction. A row that vanished meanwhile is an error, not a success that did nothing.
func (c *Client) transact(ctx context.Context, ops []ovsdb.Operation) ([]ovsdb.OperationResult, error) {
	results, err := c.ovs.Transact(ctx, ops...)
	if err != nil {
		return nil, fmt.Errorf("%w: write: %w", ErrUnavailable, err)
	}
	if _, err := ovsdb.CheckOperationResults(results, ops); err != nil {
		for _, result := range results {
			if result.Error != "" {
				return nil, fmt.Errorf("write to open vSwitch: %s: %s", result.Error, result.Details)
			}
		}
		return nil, fmt.Errorf("write to open vSwitch: %w", err)
	}
	for i, op := range ops {
		if op.Op == ovsdb.OperationMutate && results[i].Count == 0 {
			return nil, fmt.Errorf("%w: the row in table %s has just been made anew (bridge %s)", ErrUnavailable, op.Table, c.bridge)
		}
	}
	return results, nil
}

func firstOf(list string) string {
	first, _, _ := strings.Cut(list, ",")
	return strings.TrimSpace(first)
}
