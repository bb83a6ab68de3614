package porthole

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"go4.org/netipx"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
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
	return errors.Join(netdev.Set(netdev.AllInterfaces, allSettings(ipv6)...),
		netdev.Set(netdev.NewInterfaces, append(strict(), forwarding())...))
}

// allSettings are those of all interfaces of a porthole's namespace.
func allSettings(ipv6 bool) []netdev.Setting {
	all := append(strict(), disabled(!ipv6))
	if ipv6 {
		all = append(all, netdev.Setting{Protocol: "ipv6", Key: "forwarding", Value: "1"})
	}
	return all
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

// insideSettings are those of a porthole's links.
func insideSettings(ipv6 bool) []netdev.Setting {
	return append(strict(), forwarding(), disabled(!ipv6))
}

// settle readies one of a porthole's links, which is not up yet or was made before. It runs inside.
func settle(link netlink.Link, ipv6 bool, upon before) error {
	if upon == something {
		// Somebody may have changed what the link got when it was made.
		if err := netdev.Set(link.Attrs().Name, insideSettings(ipv6)...); err != nil {
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
	if err := setAddresses(lo, spec.nameAddresses(), upon); err != nil {
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
	if err := setAddresses(network, spec.ownAddresses(), upon); err != nil {
		return err
	}
	for _, link := range []netlink.Link{lo, network, node} {
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("bring up %s: %w", link.Attrs().Name, err)
		}
	}
	side := map[string]netlink.Link{networkSide: network, hostSide: node}
	for _, n := range spec.neighbours() {
		if err := neighbour(side[n.link], n.address, n.mac); err != nil {
			return err
		}
	}
	for _, family := range families(spec.hasIPv6()) {
		if err := leadOut(family); err != nil {
			return err
		}
	}
	routes := spec.routes(network.Attrs().Index, node.Attrs().Index)
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

// nameAddresses are those where pods ask for names, on the loopback interface.
func (s Spec) nameAddresses() (out []netip.Prefix) {
	for _, a := range s.DNS {
		if a.Is4() || s.hasIPv6() {
			out = append(out, host(a))
		}
	}
	return out
}

// ownAddresses are those of the Network's side.
func (s Spec) ownAddresses() []netip.Prefix {
	own := model.PortholeAddresses()
	if !s.hasIPv6() {
		return own[:1]
	}
	out := []netip.Prefix{own[0], own[1], host(model.ErrandAddress(false))}
	for _, at := range s.Relayed {
		out = append(out, host(at.Addr()))
	}
	return out
}

// fixed is a neighbour on a link that stays as it is.
type fixed struct {
	link    string
	address netip.Addr
	mac     string
}

// neighbours are those inside: the router, and the node.
func (s Spec) neighbours() (out []fixed) {
	for _, family := range families(s.hasIPv6()) {
		out = append(out, fixed{networkSide, edgeOf(family), model.EdgeMAC}, fixed{hostSide, hopFor(family).node, nodeMAC})
	}
	return out
}

// edgeOf is the address of a family that the Network's router has towards portholes.
func edgeOf(family netip.Addr) netip.Addr {
	edges := model.EdgeAddresses()
	if family.Is6() {
		return edges[1].Addr()
	}
	return edges[0].Addr()
}

// routes are those inside, over the links of these indexes.
func (s Spec) routes(network, node int) (out []route) {
	for _, family := range families(s.hasIPv6()) {
		for _, subnet := range ofFamily(s.Subnets, family) {
			out = append(out, route{to: subnet, via: edgeOf(family), link: network, table: unix.RT_TABLE_MAIN})
		}
		for _, table := range []int{unix.RT_TABLE_MAIN, wayOut} {
			out = append(out, route{to: netip.PrefixFrom(family, 0), via: hopFor(family).node, link: node, table: table})
		}
	}
	return out
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
		prefix, counts := addressIn(a)
		if !counts {
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

// addressIn is an address of a link; false for loopback's own, which nobody gives or takes.
func addressIn(a netlink.Addr) (netip.Prefix, bool) {
	prefix, ok := netipx.FromStdIPNet(a.IPNet)
	return prefix, ok && !prefix.Addr().IsLoopback()
}
