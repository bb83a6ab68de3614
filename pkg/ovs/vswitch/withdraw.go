package vswitch

import (
	"context"
	"fmt"
	"time"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// anySwitch is whom a change of the root row wakes; no interface has an empty name.
const anySwitch = ""

// Withdraw takes ports out of the bridge as Detach does, and returns once ovs-vswitchd has let go of their
// links. A link that is made anew under its old name before that is taken for the old one, and no packet passes.
func (c *Client) Withdraw(ctx context.Context, ports ...Port) error {
	asked, err := c.retract(ctx, ports)
	if err != nil {
		return err
	}
	if err := c.configured(ctx, asked); err != nil {
		return fmt.Errorf("wait until a port is let go of: %w", err)
	}
	return nil
}

// Release takes ports out of the bridge as Withdraw does, but waits no longer than patience for ovs-vswitchd, and then goes
// without it. Only what the database did not take is an error.
//
// The userspace datapath reads a link's packets when ovs-vswitchd gets to it; those that it has not read are lost with the link.
// Before it lets go of a link it has read them.
func (c *Client) Release(ctx context.Context, patience time.Duration, ports ...Port) error {
	asked, err := c.retract(ctx, ports)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.configured(waiting, asked); err != nil && waiting.Err() == nil {
		return fmt.Errorf("wait until a port is let go of: %w", err)
	}
	return nil
}

// retract takes ports out of the bridge, and returns what cur_cfg is once ovs-vswitchd has followed.
func (c *Client) retract(ctx context.Context, ports []Port) (int, error) {
	bridge, err := c.bridgeRow(ctx)
	if err != nil {
		return 0, err
	}
	ops, err := c.detachments(ctx, bridge, ports)
	if err != nil {
		return 0, err
	}
	return c.askForConfiguration(ctx, ops...)
}

// reconfigure has ovs-vswitchd do what the database asks, what it could not do before too, and returns when it has.
func (c *Client) reconfigure(ctx context.Context) error {
	asked, err := c.askForConfiguration(ctx)
	if err != nil {
		return err
	}
	return c.configured(ctx, asked)
}

// configured waits until ovs-vswitchd has done what the database asked when next_cfg became asked: it copies next_cfg to
// cur_cfg when it has (ovs-vswitchd.conf.db(5)).
func (c *Client) configured(ctx context.Context, asked int) error {
	woken, stop := c.Watch(anySwitch)
	defer stop()
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

// askForConfiguration runs operations and raises next_cfg in one transaction, and returns what next_cfg is then.
func (c *Client) askForConfiguration(ctx context.Context, ops ...ovsdb.Operation) (int, error) {
	root, err := c.rootRow(ctx)
	if err != nil {
		return 0, err
	}
	where := []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: root.UUID})}
	results, err := c.transact(ctx, append(ops,
		ovsdb.Operation{Op: ovsdb.OperationMutate, Table: tableRoot, Where: where, Mutations: []ovsdb.Mutation{
			*ovsdb.NewMutation("next_cfg", ovsdb.MutateOperationAdd, 1),
		}},
		ovsdb.Operation{Op: ovsdb.OperationSelect, Table: tableRoot, Where: where, Columns: []string{"next_cfg"}},
	))
	if err != nil {
		return 0, err
	}
	rows := results[len(ops)+1].Rows
	if len(rows) != 1 {
		return 0, fmt.Errorf("write next_cfg to open vSwitch: %d rows", len(rows))
	}
	switch next := rows[0]["next_cfg"].(type) {
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
