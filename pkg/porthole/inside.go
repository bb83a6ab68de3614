package porthole

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"go4.org/netipx"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/netdev"
)

// ourRoutes is the protocol number of our routes: whose are removed, and nobody else's. (rtnetlink(7): from 5 on they are
// for users; 167 is in no list of iproute2's.)
const ourRoutes netlink.RouteProtocol = 167

// wayOut is the table of routes for what comes from the Network, and the priority of the rule that leads there.
const (
	wayOut     = 167
	wayOutRule = 100
)

// harden sets what the namespace has for all interfaces, and what those to come get, before there are any. It runs inside.
func harden(ipv6 bool) error {
	all := append(strict(), disabled(!ipv6))
	if ipv6 {
		all = append(all, netdev.Setting{Protocol: "ipv6", Key: "forwarding", Value: "1"})
	}
	return errors.Join(netdev.Set(netdev.AllInterfaces, all...), netdev.Set(netdev.NewInterfaces, append(strict(), forwarding())...))
}

// forwarding is that of IPv4: an interface's own, while that of IPv6 is the namespace's. So there is no need of ip_forward, for
// which the kernel would lock all links.
func forwarding() netdev.Setting {
	return netdev.Setting{Protocol: "ipv4", Key: "forwarding", Value: "1"}
}

// disabled says whether there is no IPv6.
func disabled(off bool) netdev.Setting {
	value := "0"
	if off {
		value = "1"
	}
	return netdev.Setting{Protocol: "ipv6", Key: "disable_ipv6", Value: value}
}

// strict is what every interface of a porthole has.
func strict() []netdev.Setting {
	return append(unmoved(),
		// The table judges sources, more strictly, and what comes from the Network has a route of its own.
		netdev.Setting{Protocol: "ipv4", Key: "rp_filter", Value: "0"},
		netdev.Setting{Protocol: "ipv6", Key: "accept_source_route", Value: "-1"},
		netdev.Setting{Protocol: "ipv6", Key: "accept_dad", Value: "0"},
	)
}

// unmoved is what every interface of ours has, on either side: nobody tells it where to send packets.
func unmoved() []netdev.Setting {
	return []netdev.Setting{
		{Protocol: "ipv4", Key: "send_redirects", Value: "0"},
		{Protocol: "ipv4", Key: "accept_redirects", Value: "0"},
		{Protocol: "ipv4", Key: "accept_source_route", Value: "0"},
		{Protocol: "ipv6", Key: "accept_ra", Value: "0"},
		{Protocol: "ipv6", Key: "accept_redirects", Value: "0"},
	}
}

// settle readies one of a porthole's links, which is not up yet or was made before. It runs inside.
func settle(link netlink.Link, ipv6 bool, upon before) error {
	if upon == something {
		// Somebody may have changed what the link got when it was made.
		wanted := append(strict(), forwarding(), disabled(!ipv6))
		if err := netdev.Set(link.Attrs().Name, wanted...); err != nil {
			return err
		}
	}
	// Link-local addresses are only those that are set.
	return netdev.NoLinkLocal(link)
}

// furnish brings both links up, with addresses, neighbours and routes, and takes away what is too many. It runs inside.
func furnish(spec Spec, upon before) error {
	lo, err := netdev.LinkOf("lo")
	if err != nil {
		return err
	}
	var dns []netip.Prefix
	for _, a := range spec.DNS {
		if a.Is4() || spec.hasIPv6() {
			dns = append(dns, host(a))
		}
	}
	if err := setAddresses(lo, dns, upon); err != nil {
		return err
	}
	network, err := netdev.LinkOf(networkSide)
	if err != nil {
		return err
	}
	node, err := netdev.LinkOf(hostSide)
	if err != nil {
		return err
	}
	for _, link := range []netlink.Link{network, node} {
		if err := settle(link, spec.hasIPv6(), upon); err != nil {
			return err
		}
	}
	if spec.Offload == netdev.PodChecksums {
		if err := netdev.DisableTxChecksums(networkSide); err != nil {
			return err
		}
	}
	edges, own := model.EdgeAddresses(), model.PortholeAddresses()
	wanted := []netip.Prefix{own[0]}
	if spec.hasIPv6() {
		wanted = append(wanted, own[1], host(model.ErrandAddress(false)))
		for _, at := range spec.Relayed {
			wanted = append(wanted, host(at.Addr()))
		}
	}
	if err := setAddresses(network, wanted, upon); err != nil {
		return err
	}
	for _, link := range []netlink.Link{lo, network, node} {
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("bring up %s: %w", link.Attrs().Name, err)
		}
	}
	var routes []route
	for _, family := range families(spec.hasIPv6()) {
		next, edge := hopFor(family).node, edges[0].Addr()
		if family.Is6() {
			edge = edges[1].Addr()
		}
		if err := neighbour(network, edge, model.EdgeMAC); err != nil {
			return err
		}
		if err := neighbour(node, next, nodeMAC); err != nil {
			return err
		}
		for _, subnet := range ofFamily(spec.Subnets, family) {
			routes = append(routes, route{to: subnet, via: edge, link: network.Attrs().Index, table: unix.RT_TABLE_MAIN})
		}
		for _, table := range []int{unix.RT_TABLE_MAIN, wayOut} {
			routes = append(routes, route{to: netip.PrefixFrom(family, 0), via: next, link: node.Attrs().Index, table: table})
		}
		if err := leadOut(family); err != nil {
			return err
		}
	}
	if upon == something {
		return setRoutes(routes, func(route) bool { return true })
	}
	for _, r := range routes {
		if err := addRoute(r); err != nil {
			return err
		}
	}
	return nil
}

// leadOut has what comes from the Network take the way out even where its destination is also an address of the
// Network: the client or the server meant is the one outside.
func leadOut(family netip.Addr) error {
	rule := netlink.NewRule()
	rule.IifName, rule.Table, rule.Priority, rule.Family = networkSide, wayOut, wayOutRule, netlinkFamily(family)
	if err := netlink.RuleAdd(rule); err != nil && err != unix.EEXIST { //nolint:errorlint // netlink returns plain numbers
		return fmt.Errorf("add rule for %s: %w", networkSide, err)
	}
	return nil
}

func netlinkFamily(a netip.Addr) int {
	if a.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}

// setAddresses gives a link these addresses and takes all others but loopback's away.
func setAddresses(link netlink.Link, wanted []netip.Prefix, upon before) error {
	var present []netlink.Addr
	if upon == something {
		var err error
		if present, err = netdev.ListAddresses(link); err != nil {
			return fmt.Errorf("look at %s: %w", link.Attrs().Name, err)
		}
	}
	var have []netip.Prefix
	for _, a := range present {
		prefix, ok := netipx.FromStdIPNet(a.IPNet)
		if !ok || prefix.Addr().IsLoopback() {
			continue
		}
		if slices.Contains(wanted, prefix) {
			have = append(have, prefix)
			continue
		}
		if err := netlink.AddrDel(link, &a); err != nil {
			return fmt.Errorf("remove address %s of %s: %w", prefix, link.Attrs().Name, err)
		}
	}
	for _, prefix := range wanted {
		if slices.Contains(have, prefix) {
			continue
		}
		address := &netlink.Addr{IPNet: netipx.PrefixIPNet(prefix)}
		if prefix.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrReplace(link, address); err != nil {
			return fmt.Errorf("add address %s to %s: %w", prefix, link.Attrs().Name, err)
		}
	}
	return nil
}
