package vswitch

import (
	"context"
	"fmt"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// KeyBridgeRemote is where ovn-controller reaches its bridge; without it, by NAME.mgmt, whose connections nothing bounds.
// (ovn-controller(8), since 24.03. One that does not know it stays where it is.)
const KeyBridgeRemote = "ovn-bridge-remote"

// KeyRestoreWait of other_config has ovs-vswitchd leave the kernel's flows as they are, and take no controllers of the database,
// until it is gone. (ovs-vswitchd.conf.db(5).)
const KeyRestoreWait = "flow-restore-wait"

// LeastThrottle is the smallest rate that the database takes. (ovs-vswitchd.conf.db(5), controller_rate_limit.)
const LeastThrottle = 100

// doorOf is the name, in Open vSwitch's directory, of the one further socket that ovs-vswitchd opens for controllers of a bridge.
func doorOf(bridge string) string { return bridge + ".controller" }

// RemoteOf is how ovn-controller calls the Door of a bridge: a name without a directory is of Open vSwitch's.
func RemoteOf(bridge string) string { return "unix:" + doorOf(bridge) }

// Door is the socket by which a bridge gives ovn-controller no more than Throttle says, in a directory.
func Door(dir, bridge string) string { return dir + "/" + doorOf(bridge) }

// Throttle has the bridge open its Door, and give whoever comes by it so many packets a second at most. Packets wait in a queue
// for each port that they came in by; the queues take turns, and when there is no room the longest one loses a packet. It returns
// when ovs-vswitchd has followed. A directory that is not ovs-vswitchd's own it refuses, in its log: see whether the Door opens.
func (c *Client) Throttle(ctx context.Context, dir string, rate int) error {
	bridge, err := c.bridgeRow(ctx)
	if err != nil {
		return err
	}
	want := throttled(dir, c.bridge, rate)
	row := ovsdb.Row{"target": want.Target, "controller_rate_limit": rate, "controller_burst_limit": rate, "connection_mode": *want.Mode}
	present, found, err := c.throttle(ctx, bridge, want.Target)
	if err != nil || found && present.equal(want) {
		return err
	}
	ops := []ovsdb.Operation{{
		Op: ovsdb.OperationUpdate, Table: tableController, Row: row,
		Where: []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: present.UUID})},
	}}
	if !found {
		const added = "door"
		ops = []ovsdb.Operation{
			{Op: ovsdb.OperationInsert, Table: tableController, UUIDName: added, Row: row},
			mutateBridge(bridge, "controller", ovsdb.MutateOperationInsert, []string{added}),
		}
	}
	asked, err := c.askForConfiguration(ctx, ops...)
	if err != nil {
		return err
	}
	return c.configured(ctx, asked)
}

// throttled is the bridge's controller for its Door.
func throttled(dir, bridge string, rate int) controllerRow {
	mode := "out-of-band"
	return controllerRow{Target: "punix:" + Door(dir, bridge), Rate: &rate, Burst: &rate, Mode: &mode}
}

// Throttled reports whether the bridge has what Throttle makes, and ovn-controller is told to come by it or was sent elsewhere by
// somebody. With rate 0, whether it has nothing of it. What there is otherwise is in words.
func (c *Client) Throttled(ctx context.Context, dir string, rate int) (whole bool, have string, err error) {
	bridge, err := c.bridgeRow(ctx)
	if err != nil {
		return false, "", err
	}
	want := throttled(dir, c.bridge, rate)
	present, found, err := c.throttle(ctx, bridge, want.Target)
	if err != nil {
		return false, "", err
	}
	remote, err := c.setting(ctx, KeyBridgeRemote)
	switch {
	case err != nil:
		return false, "", err
	case rate == 0 && (found || remote == RemoteOf(c.bridge)):
		return false, "there is one", nil
	case rate == 0:
		return true, "", nil
	case !found:
		return false, "no controller " + want.Target, nil
	case !present.equal(want):
		return false, "controller " + want.Target + " with another rate or mode", nil
	case remote == "":
		return false, "external_ids without " + KeyBridgeRemote, nil
	}
	return true, "", nil
}

// Settled returns when ovs-vswitchd has followed all that is in the database, its controllers too. Until then a Door that does
// not open says nothing about it: ovs-vswitchd may be starting, or hold its flows. The error says so where that is known;
// otherwise ctx bounds the wait.
func (c *Client) Settled(ctx context.Context) error {
	// Before, since it may have followed our number while it held them, and after, since it may have begun anew.
	if err := c.released(ctx); err != nil {
		return err
	}
	asked, err := c.askForConfiguration(ctx)
	if err != nil {
		return err
	}
	if err := c.configured(ctx, asked); err != nil {
		return err
	}
	return c.released(ctx)
}

func (c *Client) released(ctx context.Context) error {
	root, err := c.rootRow(ctx)
	if err == nil && root.OtherConfig[KeyRestoreWait] == "true" {
		err = fmt.Errorf("%w: ovs-vswitchd waits for its flows", ErrUnavailable)
	}
	return err
}

// Usher has ovn-controller come by the Door, unless somebody sent it elsewhere. It begins a new connection for that, and writes
// all flows of the bridge anew.
func (c *Client) Usher(ctx context.Context) error {
	now, err := c.setting(ctx, KeyBridgeRemote)
	if err != nil || now != "" {
		return err
	}
	return c.mutateSetting(ctx, ovsdb.MutateOperationInsert, map[string]string{KeyBridgeRemote: RemoteOf(c.bridge)})
}

// Unusher has ovn-controller come by the bridge's own socket again, if it is the Door by which it comes.
func (c *Client) Unusher(ctx context.Context) error {
	now, err := c.setting(ctx, KeyBridgeRemote)
	if err != nil || now != RemoteOf(c.bridge) {
		return err
	}
	return c.mutateSetting(ctx, ovsdb.MutateOperationDelete, map[string]string{KeyBridgeRemote: now})
}

// Unthrottle takes back what Throttle and Usher did.
func (c *Client) Unthrottle(ctx context.Context, dir string) error {
	if err := c.Unusher(ctx); err != nil {
		return err
	}
	bridge, err := c.bridgeRow(ctx)
	if err != nil {
		return err
	}
	present, found, err := c.throttle(ctx, bridge, "punix:"+Door(dir, c.bridge))
	if err != nil || !found {
		return err
	}
	// What nothing refers to is removed.
	_, err = c.transact(ctx, []ovsdb.Operation{mutateBridge(bridge, "controller", ovsdb.MutateOperationDelete, []string{present.UUID})})
	return err
}

// throttle is the bridge's controller of a target; false when it has none.
func (c *Client) throttle(ctx context.Context, bridge *bridgeRow, target string) (controllerRow, bool, error) {
	var rows []controllerRow
	if err := c.ovs.List(ctx, &rows); err != nil {
		return controllerRow{}, false, fmt.Errorf("list controllers: %w", err)
	}
	for _, row := range rows {
		if row.Target == target && slices.Contains(bridge.Controllers, row.UUID) {
			return row, true, nil
		}
	}
	return controllerRow{}, false, nil
}

func (r controllerRow) equal(to controllerRow) bool {
	same := func(a, b *int) bool { return a != nil && b != nil && *a == *b }
	return same(r.Rate, to.Rate) && same(r.Burst, to.Burst) && r.Mode != nil && *r.Mode == *to.Mode
}

// mutateSetting changes what OVN is told.
func (c *Client) mutateSetting(ctx context.Context, mutator ovsdb.Mutator, settings map[string]string) error {
	root, err := c.rootRow(ctx)
	if err != nil {
		return err
	}
	encoded, err := ovsdb.NewOvsMap(settings)
	if err != nil {
		return fmt.Errorf("encode external_ids: %w", err)
	}
	_, err = c.transact(ctx, []ovsdb.Operation{{
		Op: ovsdb.OperationMutate, Table: tableRoot,
		Where:     []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: root.UUID})},
		Mutations: []ovsdb.Mutation{*ovsdb.NewMutation("external_ids", mutator, encoded)},
	}})
	return err
}
