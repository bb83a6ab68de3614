package vswitch

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Underlay is what OVN itself uses to be one network of many nodes, as this node's ovn-controller has it. Its lists are sorted.
type Underlay struct {
	// Own are the addresses of this node's tunnels, Peers those of the other nodes' with which it has tunnels.
	Own, Peers []netip.Addr
	// Chassis names whose tunnel a peer's address is. The southbound database takes an address of one kind of tunnel from one chassis only.
	Chassis map[netip.Addr]string
	// Ports are the UDP ports on which nodes take tunnels.
	Ports []uint16
	// Southbound are the servers of the southbound database, those that are named by an address.
	Southbound []netip.AddrPort
}

// tunnelPorts are the UDP ports of the kinds of tunnels that OVN makes, where nothing else is said. (RFC 8926, RFC 7348.)
var tunnelPorts = map[string]uint16{"geneve": 6081, "vxlan": 4789}

// Rewired receives a value whenever the Underlay may be another. It is never closed and holds at most one value.
func (c *Client) Rewired() <-chan struct{} { return c.rewired }

// Underlay reads what ovn-controller has made and what it was told.
func (c *Client) Underlay(ctx context.Context) (Underlay, error) {
	var u Underlay
	own, err := c.setting(ctx, keyEncapIP)
	if err != nil {
		return u, err
	}
	kinds, err := c.setting(ctx, keyEncap)
	if err != nil {
		return u, err
	}
	southbound, err := c.setting(ctx, keyRemote)
	if err != nil {
		return u, err
	}
	u.Southbound = Servers(southbound)
	for text := range strings.SplitSeq(own, ",") {
		if a, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			u.Own = append(u.Own, a.Unmap())
		}
	}
	for kind := range strings.SplitSeq(kinds, ",") {
		if port, known := tunnelPorts[strings.TrimSpace(kind)]; known {
			u.Ports = append(u.Ports, port)
		}
	}
	// All of them, since tunnels seldom change.
	var rows []interfaceRow
	if err := c.ovs.List(ctx, &rows); err != nil {
		return u, fmt.Errorf("list interfaces: %w", err)
	}
	var ports []portRow
	if err := c.ovs.List(ctx, &ports); err != nil {
		return u, fmt.Errorf("list ports: %w", err)
	}
	u.Chassis = chassisOf(rows, ports)
	for _, row := range rows {
		port, tunnel := tunnelPorts[row.Type]
		if !tunnel {
			continue
		}
		if a, err := netip.ParseAddr(row.Options["remote_ip"]); err == nil {
			u.Peers = append(u.Peers, a.Unmap())
		}
		if a, err := netip.ParseAddr(row.Options["local_ip"]); err == nil {
			u.Own = append(u.Own, a.Unmap())
		}
		if told, err := strconv.ParseUint(row.Options["dst_port"], 10, 16); err == nil {
			port = uint16(told)
		}
		u.Ports = append(u.Ports, port)
	}
	for _, list := range []*[]netip.Addr{&u.Own, &u.Peers} {
		slices.SortFunc(*list, netip.Addr.Compare)
		*list = slices.Compact(*list)
	}
	slices.SortFunc(u.Ports, cmp.Compare[uint16])
	u.Ports = slices.Compact(u.Ports)
	return u, c.synced(ctx)
}

// chassisOf names whose tunnel an address is. Where chassis have tunnels of several kinds there, that of Geneve counts, since OVN
// prefers it.
func chassisOf(rows []interfaceRow, ports []portRow) map[netip.Addr]string {
	names := make(map[string]string, len(ports))
	for _, port := range ports {
		names[port.Name], _, _ = strings.Cut(port.ExternalIDs[keyChassis], "@")
	}
	out := map[netip.Addr]string{}
	for _, kind := range []string{"vxlan", "geneve"} {
		for _, row := range rows {
			a, err := netip.ParseAddr(row.Options["remote_ip"])
			// OVN calls a tunnel's port as its interface.
			if name := names[row.Name]; err == nil && row.Type == kind && name != "" {
				out[a.Unmap()] = name
			}
		}
	}
	return out
}

// Servers are those of a database's servers that a list, separated by commas, names by an address: tcp:10.0.0.1:6642, ssl:[fd00::1]:6642.
// (ovsdb(7), connection methods.)
func Servers(list string) []netip.AddrPort {
	var out []netip.AddrPort
	for text := range strings.SplitSeq(list, ",") {
		_, at, _ := strings.Cut(strings.TrimSpace(text), ":")
		if server, err := netip.ParseAddrPort(at); err == nil {
			out = append(out, netip.AddrPortFrom(server.Addr().Unmap(), server.Port()))
		} else if a, err := netip.ParseAddr(strings.Trim(at, "[]")); err == nil {
			// The port that IANA has for it.
			out = append(out, netip.AddrPortFrom(a.Unmap(), ovsdbPort))
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

const ovsdbPort = 6640
