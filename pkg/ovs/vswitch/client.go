package vswitch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/process/wake"
)

// ErrUnavailable wraps every error that comes from the database, or the bridge, being away.
var ErrUnavailable = errors.New("open vSwitch is not available")

const (
	// connectTimeout bounds one attempt to connect and read the tables.
	connectTimeout = 5 * time.Second
	// inactivity is how long a silent database is trusted before it is probed.
	inactivity = 30 * time.Second
	// The pause between two attempts to connect grows from the first to the second.
	firstRetry, lastRetry = 50 * time.Millisecond, 2 * time.Second
)

// Client is a connection to one bridge of the local Open vSwitch. It connects again by itself, forever.
type Client struct {
	ovs client.Client
	// address is the database's.
	address string
	bridge  string
	changed wake.Signal
	// rewired is sent when tunnels may have changed.
	rewired wake.Signal
	// waiting holds, per interface name, who wants to know of its changes.
	waiting wake.Waiters[string]
}

// Dial connects to the database at an address (unix:path or tcp:host:port) and waits for it until ctx ends.
func Dial(ctx context.Context, address, bridge string, log *slog.Logger) (*Client, error) {
	db, err := databaseModel()
	if err != nil {
		return nil, err
	}
	logger := logr.FromSlogHandler(log.With("component", "ovsdb").Handler())
	c := &Client{
		address: address,
		bridge:  bridge,
		changed: wake.NewSignal(),
		rewired: wake.NewSignal(),
	}
	attempt := func() error {
		ovs, err := client.NewOVSDBClient(db,
			client.WithEndpoint(address),
			client.WithLogger(&logger),
			client.WithInactivityCheck(inactivity, connectTimeout, retries()),
		)
		if err != nil {
			return backoff.Permanent(err)
		}
		if err := c.connect(ctx, ovs); err != nil {
			ovs.Close()
			return err
		}
		c.ovs = ovs
		return nil
	}
	notify := func(err error, pause time.Duration) {
		log.Warn("open vSwitch database not reachable", "address", address, "error", err, "retry", pause)
	}
	if err := backoff.RetryNotify(attempt, backoff.WithContext(retries(), ctx), notify); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return c, nil
}

// retries never ends: the client panics when its retries do.
func retries() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstRetry),
		backoff.WithMaxInterval(lastRetry), backoff.WithMaxElapsedTime(0))
}

// connect opens a connection and reads the tables. From then on ovs keeps both up by itself.
func (c *Client) connect(ctx context.Context, ovs client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := ovs.Connect(ctx); err != nil {
		return err
	}
	ovs.Cache().AddEventHandler(events{c})
	root, bridge, port, iface, controller := &rootRow{}, &bridgeRow{}, &portRow{}, &interfaceRow{}, &controllerRow{}
	monitor := ovs.NewMonitor(
		client.WithTable(root, &root.ExternalIDs, &root.OtherConfig, &root.CurCfg),
		client.WithTable(bridge, &bridge.Name, &bridge.DatapathType, &bridge.Controllers),
		client.WithTable(controller, &controller.Target, &controller.Rate, &controller.Burst, &controller.Mode),
		client.WithTable(port, &port.Name, &port.ExternalIDs),
		client.WithTable(iface, &iface.Name, &iface.ExternalIDs, &iface.Type, &iface.Options, &iface.Ofport, &iface.Error),
	)
	// Not monitor_cond_since: the client does not notice when the cache and such updates disagree, and this
	// database is small enough to be read anew after each disconnection.
	monitor.Method = ovsdb.ConditionalMonitorRPC
	if _, err := ovs.Monitor(ctx, monitor); err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	return nil
}

// Close ends the connection for good.
func (c *Client) Close() { c.ovs.Close() }

// Changed receives a value after each new connection and whenever the bridge was made: what the database
// held before may be gone. It is never closed and holds at most one value.
func (c *Client) Changed() <-chan struct{} { return c.changed }

// Connected reports whether the database answers.
func (c *Client) Connected() bool { return c.ovs.CurrentEndpoint() != "" }

// Ready reports why ports cannot be attached now; nil when they can.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.bridgeRow(ctx)
	return err
}

// bridgeRow is the bridge, from a cache that is in sync.
func (c *Client) bridgeRow(ctx context.Context) (*bridgeRow, error) {
	if err := c.synced(ctx); err != nil {
		return nil, err
	}
	row := &bridgeRow{Name: c.bridge}
	if err := c.ovs.Get(ctx, row); errors.Is(err, client.ErrNotFound) {
		return nil, fmt.Errorf("%w: bridge %s does not exist; is ovn-controller running on this node?", ErrUnavailable, c.bridge)
	} else if err != nil {
		return nil, fmt.Errorf("read bridge %s: %w", c.bridge, err)
	}
	return row, nil
}

// synced returns an error while the cache may be behind.
func (c *Client) synced(ctx context.Context) error {
	if !c.Connected() {
		return fmt.Errorf("%w: its database does not answer; is ovsdb-server running on this node?", ErrUnavailable)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// Userspace reports whether the bridge's datapath runs in userspace, or is about to: ovn-controller makes the
// bridge first and sets its datapath a moment later.
func (c *Client) Userspace(ctx context.Context) (bool, error) {
	row, err := c.bridgeRow(ctx)
	if err != nil || row.DatapathType == userspace {
		return err == nil, err
	}
	wanted, err := c.setting(ctx, keyDatapath)
	return wanted == userspace, err
}

// EncapIP is the tunnel's address as the node's chassis announces it; with several, the first one.
func (c *Client) EncapIP(ctx context.Context) (string, error) {
	addresses, err := c.setting(ctx, keyEncapIP)
	if err == nil && addresses == "" {
		err = fmt.Errorf("%w: external_ids:%s is not set; is this node set up for OVN?", ErrUnavailable, keyEncapIP)
	}
	return firstOf(addresses), err
}

// Southbound are the servers of the southbound database as ovn-controller finds them, separated by commas.
func (c *Client) Southbound(ctx context.Context) (string, error) {
	servers, err := c.setting(ctx, keyRemote)
	if err == nil && servers == "" {
		err = fmt.Errorf("%w: external_ids:%s is not set; is this node set up for OVN?", ErrUnavailable, keyRemote)
	}
	return servers, err
}

// setting is what the node's owner told OVN under a key; empty when nothing.
func (c *Client) setting(ctx context.Context, key string) (string, error) {
	if err := c.synced(ctx); err != nil {
		return "", err
	}
	var rows []rootRow
	if err := c.ovs.List(ctx, &rows); err != nil {
		return "", fmt.Errorf("read table %s: %w", tableRoot, err)
	}
	if len(rows) == 0 {
		return "", nil
	}
	return rows[0].ExternalIDs[key], nil
}
