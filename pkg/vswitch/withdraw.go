package vswitch

import (
	"context"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// anySwitch is whom a change of the root row wakes; no interface has an empty name.
const anySwitch = ""

// Withdraw takes ports out of the bridge as Detach does, and returns once ovs-vswitchd has let go of their
// links. A link that is made anew under its old name before that is taken for the old one, and no packet passes.
func (c *Client) Withdraw(ctx context.Context, ports ...Port) error {
	if err := c.Detach(ctx, ports...); err != nil {
		return err
	}
	if err := c.reconfigure(ctx); err != nil {
		return fmt.Errorf("wait until a port is let go of: %w", err)
	}
	return nil
}

// reconfigure has ovs-vswitchd do what the database asks, what it could not do before too, and returns when it has.
//
// ovs-vswitchd copies next_cfg to cur_cfg when it has done what the database asked up to then
// (ovs-vswitchd.conf.db(5)).
func (c *Client) reconfigure(ctx context.Context) error {
	woken, stop := c.Watch(anySwitch)
	defer stop()
	asked, err := c.askForConfiguration(ctx)
	if err != nil {
		return err
	}
	for {
		root, err := c.rootRow(ctx)
		if err != nil {
			return err
		}
		if root.CurCfg >= asked {
			return nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return fmt.Errorf("%w: ovs-vswitchd does not answer: %w", ErrUnavailable, context.Cause(ctx))
		}
	}
}

// askForConfiguration raises next_cfg and returns it.
func (c *Client) askForConfiguration(ctx context.Context) (int, error) {
	root, err := c.rootRow(ctx)
	if err != nil {
		return 0, err
	}
	where := []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: root.UUID})}
	ops := []ovsdb.Operation{
		{Op: ovsdb.OperationMutate, Table: tableRoot, Where: where, Mutations: []ovsdb.Mutation{
			*ovsdb.NewMutation("next_cfg", ovsdb.MutateOperationAdd, 1),
		}},
		{Op: ovsdb.OperationSelect, Table: tableRoot, Where: where, Columns: []string{"next_cfg"}},
	}
	results, err := c.ovs.Transact(ctx, ops...)
	if err != nil {
		return 0, fmt.Errorf("%w: write: %w", ErrUnavailable, err)
	}
	if _, err := ovsdb.CheckOperationResults(results, ops); err != nil || len(results) < 2 || len(results[1].Rows) != 1 {
		return 0, fmt.Errorf("write next_cfg to open vSwitch: results %v: %w", results, err)
	}
	switch next := results[1].Rows[0]["next_cfg"].(type) {
	case int:
		return next, nil
	case float64:
		return int(next), nil
	default:
		return 0, fmt.Errorf("read next_cfg of open vSwitch: it is %v", next)
	}
}

// rootRow is the one row of the table Open_vSwitch.
func (c *Client) rootRow(ctx context.Context) (rootRow, error) {
	if err := c.synced(ctx); err != nil {
		return rootRow{}, err
	}
	var rows []rootRow
	if err := c.ovs.List(ctx, &rows); err != nil {
		return rootRow{}, fmt.Errorf("read table %s: %w", tableRoot, err)
	}
	if len(rows) == 0 {
		return rootRow{}, fmt.Errorf("%w: its database is empty", ErrUnavailable)
	}
	return rows[0], nil
}
