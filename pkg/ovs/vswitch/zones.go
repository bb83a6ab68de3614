package vswitch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Zone is where Open vSwitch follows the connections of a port: how many it has now, and how many it may have.
type Zone struct{ Count, Limit uint32 }

// Full reports whether the next connection is refused.
func (z Zone) Full() bool { return z.Limit > 0 && z.Count >= z.Limit }

// keyZone begins the keys of the bridge's external_ids by which ovn-controller says which zone a logical port has.
const keyZone = "ct-zone-"

// Zones are those of the bridge's logical ports that have a limit, by the ports' names.
func (c *Client) Zones(ctx context.Context) (map[string]Zone, error) {
	text, err := c.ask(ctx, "dpctl/ct-get-limits")
	if err != nil {
		return nil, err
	}
	limited := parseLimits(text)
	if len(limited) == 0 {
		return nil, nil
	}
	replies, err := c.ovs.Transact(ctx, ovsdb.Operation{
		Op: ovsdb.OperationSelect, Table: tableBridge, Columns: []string{"external_ids"},
		Where: []ovsdb.Condition{ovsdb.NewCondition("name", ovsdb.ConditionEqual, c.bridge)},
	})
	if err != nil {
		return nil, fmt.Errorf("read zones of bridge %s: %w", c.bridge, err)
	}
	out := map[string]Zone{}
	for _, row := range replies[0].Rows {
		ids, _ := row["external_ids"].(ovsdb.OvsMap)
		for key, value := range ids.GoMap {
			name, isZone := strings.CutPrefix(fmt.Sprint(key), keyZone)
			id, err := strconv.ParseUint(fmt.Sprint(value), 10, 16)
			if zone, has := limited[uint16(id)]; isZone && has && err == nil {
				out[name] = zone
			}
		}
	}
	return out, nil
}

// parseLimits reads what ovs-vswitchd says of zones: those that have a limit, by their numbers.
func parseLimits(text string) map[uint16]Zone {
	out := map[uint16]Zone{}
	for field := range strings.FieldsSeq(text) {
		var id uint16
		var zone Zone
		if n, _ := fmt.Sscanf(field, "zone=%d,limit=%d,count=%d", &id, &zone.Limit, &zone.Count); n == 3 {
			out[id] = zone
		}
	}
	return out
}

// control finds the socket by which ovs-vswitchd takes commands, beside that of its database: its name may have the process's id in it.
const control = "ovs-vswitchd*.ctl"

// ask sends ovs-vswitchd a command, as ovs-appctl(8) does, and returns what it says.
func (c *Client) ask(ctx context.Context, command string) (string, error) {
	sockets, err := filepath.Glob(filepath.Join(filepath.Dir(strings.TrimPrefix(c.address, "unix:")), control))
	if err != nil {
		return "", fmt.Errorf("look for ovs-vswitchd: %w", err)
	}
	failed := fmt.Errorf("%w: ovs-vswitchd has no socket beside %s", ErrUnavailable, c.address)
	for _, socket := range sockets {
		// One that ended without a warning leaves its socket behind.
		text, err := request(ctx, socket, command)
		if err == nil {
			return text, nil
		}
		failed = fmt.Errorf("ask ovs-vswitchd at %s: %w", socket, err)
	}
	return "", failed
}

// request is a request of JSON-RPC 1.0.
func request(ctx context.Context, socket, command string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(map[string]any{"id": 0, "method": command, "params": []string{}}); err != nil {
		return "", err
	}
	var reply struct {
		Result, Error *string
	}
	switch err := json.NewDecoder(conn).Decode(&reply); {
	case err != nil:
		return "", err
	case reply.Error != nil:
		return "", errors.New(strings.TrimSpace(*reply.Error))
	case reply.Result == nil:
		return "", nil
	}
	return *reply.Result, nil
}
