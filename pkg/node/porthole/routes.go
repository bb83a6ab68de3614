package porthole

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/vishvananda/netlink"
	"go4.org/netipx"
	"golang.org/x/sys/unix"
)

// route is a route of ours. It is comparable.
type route struct {
	to netip.Prefix
	// via is the next hop on link; the zero Addr: to is on the link itself.
	via netip.Addr
	// link is an interface's index; 0: nobody is to be reached, and the sender is told so.
	link int
	// source is the address that the node itself uses; the zero Addr leaves it to the kernel.
	source netip.Addr
	table  int
}

func (r route) netlink() *netlink.Route {
	out := &netlink.Route{
		Dst: netipx.PrefixIPNet(r.to), LinkIndex: r.link, Table: r.table, Protocol: ourRoutes, Family: netlinkFamily(r.to.Addr()),
	}
	if r.link == 0 {
		out.Type = unix.RTN_UNREACHABLE
		return out
	}
	if r.via.IsValid() {
		out.Gw = r.via.AsSlice()
		out.SetFlag(netlink.FLAG_ONLINK)
	} else {
		out.Scope = netlink.SCOPE_LINK
	}
	if r.source.IsValid() {
		out.Src = r.source.AsSlice()
	}
	return out
}

// setRoutes makes our routes in the namespace of the calling thread these, and removes all others of ours within a scope.
func setRoutes(wanted []route, scope func(route) bool) error {
	have, err := ownRoutes()
	if err != nil {
		return err
	}
	missing, surplus := unlikeRoutes(wanted, have, scope)
	// What is wrong goes first: IPv6 would keep a second route beside it. A face that has come from another porthole has
	// left that one.
	for _, r := range surplus {
		if err := deleteRoute(have[r], r); err != nil {
			return err
		}
	}
	for _, r := range missing {
		if err := addRoute(r); err != nil {
			return err
		}
	}
	return nil
}

// unlikeRoutes are the routes that are not there, and those within a scope, or to the same destination as one that is wanted,
// that should not be.
func unlikeRoutes(wanted []route, have map[route]netlink.Route, scope func(route) bool) (missing, surplus []route) {
	keep := make(map[route]bool, len(wanted))
	moved := make(map[netip.Prefix]bool, len(wanted))
	for _, r := range wanted {
		keep[r], moved[r.to] = true, true
		if _, there := have[r]; !there {
			missing = append(missing, r)
		}
	}
	for r := range have {
		if !keep[r] && (scope(r) || moved[r.to]) {
			surplus = append(surplus, r)
		}
	}
	return missing, surplus
}

func addRoute(r route) error {
	// Not replaced: a route of somebody else's stays, and is reported.
	if err := netlink.RouteAdd(r.netlink()); err != nil {
		return fmt.Errorf("add route to %s: %w", r.to, err)
	}
	return nil
}

func deleteRoute(found netlink.Route, r route) error {
	if err := netlink.RouteDel(&found); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("remove route to %s: %w", r.to, err)
	}
	return nil
}

// ownRoutes are our routes in the namespace of the calling thread, of all tables.
func ownRoutes() (map[route]netlink.Route, error) {
	out := map[route]netlink.Route{}
	families := []int{netlink.FAMILY_V4}
	if _, err := os.Stat("/proc/sys/net/ipv6"); err == nil {
		// A kernel without IPv6 refuses the question.
		families = append(families, netlink.FAMILY_V6)
	}
	for _, family := range families {
		filter := &netlink.Route{Protocol: ourRoutes, Table: unix.RT_TABLE_UNSPEC}
		list, err := netlinksafe.RouteListFiltered(family, filter, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, found := range list {
			out[readRoute(found, family)] = found
		}
	}
	return out, nil
}

func readRoute(found netlink.Route, family int) route {
	r := route{to: netip.PrefixFrom(netip.IPv6Unspecified(), 0), link: found.LinkIndex, table: found.Table}
	if family == netlink.FAMILY_V4 {
		r.to = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	if found.Dst != nil {
		if a, ok := netip.AddrFromSlice(found.Dst.IP); ok {
			if family == netlink.FAMILY_V4 {
				a = a.Unmap()
			}
			bits, _ := found.Dst.Mask.Size()
			r.to = netip.PrefixFrom(a, bits)
		}
	}
	if via, ok := netip.AddrFromSlice(found.Gw); ok {
		r.via = via.Unmap()
	}
	if source, ok := netip.AddrFromSlice(found.Src); ok {
		r.source = source.Unmap()
	}
	if found.Type == unix.RTN_UNREACHABLE {
		// IPv6 has them on lo.
		r.link = 0
	}
	return r
}
