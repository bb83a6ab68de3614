package porthole

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// The bridge's ends of the node's own links.
const (
	// NodePort is the other end of model.NodeInterface.
	NodePort = netdev.Prefix + "node0"
	// EdgePort is the other end of model.EdgeInterface.
	EdgePort = netdev.Prefix + "node1"
)

// Host is the wanted state of the node's own side.
type Host struct {
	// MAC, Addresses and Gateways are the node's in the default Network. Without addresses the node has no links to it.
	MAC       string
	Addresses []netip.Prefix
	Gateways  []netip.Addr
	// Default are the subnets of the default Network, and of the other flat ones.
	Default []netip.Prefix
	// Blocks are what the node's faces come from.
	Blocks []netip.Prefix
	// Direct are the UIDs of the Networks that may reach the node itself and the default Network.
	Direct []string
	// Compatible are all Networks whose pods reach another's, each with the other one. The node need not have pods of them.
	Compatible []Compatible
	// Flat are the Networks whose pods leave by the node's own links.
	Flat    []Flat
	Cluster Cluster
	// Walls are what nobody's pods get through.
	Walls Walls
	// MTU of the node's links to the bridge, in bytes of IP packet.
	MTU     int
	Offload netdev.Offload
}

// knownHost is what was last made of the node's side.
type knownHost struct {
	spec       Host
	generation uint32
	made       bool
}

func (h Host) normal() Host {
	h.Default, h.Blocks = model.Outermost(h.Default), model.Outermost(h.Blocks)
	h.Direct = slices.Compact(slices.Sorted(slices.Values(h.Direct)))
	h.Compatible = unique(h.Compatible, compareCompatible)
	h.Flat, h.Walls = normalFlat(h.Flat), h.Walls.normal()
	h.Cluster = Spec{Cluster: h.Cluster}.normal().Cluster
	return h
}

func (h Host) equal(o Host) bool {
	return h.MAC == o.MAC && slices.Equal(h.Addresses, o.Addresses) && slices.Equal(h.Gateways, o.Gateways) &&
		slices.Equal(h.Default, o.Default) && slices.Equal(h.Blocks, o.Blocks) && slices.Equal(h.Direct, o.Direct) &&
		slices.Equal(h.Compatible, o.Compatible) && slices.EqualFunc(h.Flat, o.Flat, Flat.equal) && h.Walls.equal(o.Walls) &&
		h.Cluster.equal(o.Cluster) && h.MTU == o.MTU && h.Offload == o.Offload
}

func (h Host) hasIPv6() bool {
	six := func(p netip.Prefix) bool { return p.Addr().Is6() }
	return slices.ContainsFunc(h.Addresses, six) || slices.ContainsFunc(h.Blocks, six)
}

// address is the node's address of a family in the default Network; false when it has none.
func (h Host) address(family netip.Addr) (netip.Addr, bool) {
	for _, p := range h.Addresses {
		if p.Addr().Is4() == family.Is4() {
			return p.Addr(), true
		}
	}
	return netip.Addr{}, false
}

func (h Host) cables() []cable {
	return []cable{
		{outer: NodePort, inner: model.NodeInterface, innerMAC: h.MAC, alias: nodeAlias, mtu: h.MTU, bridged: true},
		{outer: EdgePort, inner: model.EdgeInterface, innerMAC: model.PortholeMAC, alias: nodeAlias, mtu: h.MTU, bridged: true},
	}
}

// WholeHost reports whether the node's links are there as host wants them; see Whole.
func (k *Keeper) WholeHost(host Host) (bool, error) {
	for _, c := range host.cables() {
		if len(host.Addresses) == 0 {
			if link, err := netdev.Find(c.outer); err != nil || link != nil {
				return false, err
			}
			continue
		}
		if whole, err := c.whole(nil); err != nil || !whole {
			return false, err
		}
	}
	return true, nil
}

// EnsureHost makes the node's side what host says. It may be called again at any time, and then looks at everything.
func (k *Keeper) EnsureHost(host Host) error {
	host = host.normal()
	if err := forwardPackets(host.hasIPv6()); err != nil {
		return err
	}
	if err := k.writeHostTable(host); err != nil {
		return err
	}
	if len(host.Addresses) == 0 {
		for _, c := range host.cables() {
			if err := removeLink(c.outer); err != nil {
				return err
			}
		}
		return k.routeHost(host)
	}
	for _, c := range host.cables() {
		if err := c.ensure(nil); err != nil {
			return err
		}
		if err := furnishNode(c.inner, host); err != nil {
			return err
		}
	}
	return k.routeHost(host)
}

// writeHostTable makes the rules those of host: of those that were last made what differs, and all of them if somebody else has
// touched any.
func (k *Keeper) writeHostTable(host Host) error {
	k.mu.Lock()
	last := k.host
	k.mu.Unlock()
	ours := false
	if last.made {
		now, err := generation()
		if err != nil {
			return err
		}
		if ours = now == last.generation; ours && last.spec.equal(host) {
			return nil
		}
	}
	rules := hostRules(host)
	if ours {
		change, ok := rules.since(hostRules(last.spec))
		ours = ok && k.commit(change) == nil
	}
	if !ours {
		if err := k.commit(rules); err != nil {
			return fmt.Errorf("write the node's rules: %w", err)
		}
	}
	after, err := generation()
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.host = knownHost{spec: host, generation: after, made: true}
	return nil
}

// furnishNode readies one of the node's interfaces and brings it up.
func furnishNode(name string, host Host) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	if err := netdev.Set(name, nodeSettings(host.hasIPv6())...); err != nil {
		return err
	}
	if err := netdev.NoLinkLocal(link); err != nil {
		return err
	}
	if host.Offload == netdev.PodChecksums {
		if err := netdev.DisableTxChecksums(name); err != nil {
			return err
		}
	}
	if err := setAddresses(link, host.addressesOf(link), something); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring up %s: %w", name, err)
	}
	return nil
}

// nodeSettings are those of the node's own interfaces.
func nodeSettings(ipv6 bool) []netdev.Setting {
	return append(unmoved(), forwarding(), disabled(!ipv6),
		// Pods' packets come by one interface and are answered by the other.
		netdev.Setting{Protocol: "ipv4", Key: "rp_filter", Value: looseReversePath},
		// ARP here is about the addresses here: the node's others are nobody's on this link.
		netdev.Setting{Protocol: "ipv4", Key: "arp_ignore", Value: "1"},
		netdev.Setting{Protocol: "ipv4", Key: "arp_announce", Value: "2"},
		netdev.Setting{Protocol: "ipv6", Key: "accept_dad", Value: "0"},
	)
}

// addressesOf are the addresses of one of the node's interfaces.
func (h Host) addressesOf(link netlink.Link) []netip.Prefix {
	if link.Attrs().Name == model.EdgeInterface {
		own := model.PortholeAddresses()
		if h.hasIPv6() {
			return own[:]
		}
		return own[:1]
	}
	if !h.hasIPv6() {
		return h.Addresses
	}
	// Without an address for the link Linux asks nobody for the neighbours of packets that it forwards.
	return append(slices.Clone(h.Addresses), netip.PrefixFrom(linkLocal(link.Attrs().HardwareAddr), 64))
}

// routeHost sets the node's routes: to the default Network and to faces by its router, and nowhere for faces of the node
// that no pod has, so that no packet goes round in circles.
func (k *Keeper) routeHost(host Host) error {
	wanted, scope, err := host.routes()
	if err != nil {
		return err
	}
	return setRoutes(wanted, scope)
}

// routes are the node's, and which there are of them: those to portholes are not.
func (h Host) routes() (wanted []route, scope func(route) bool, err error) {
	for _, block := range h.Blocks {
		if block.Addr().Is4() || h.hasIPv6() {
			wanted = append(wanted, route{to: block, table: unix.RT_TABLE_MAIN})
		}
	}
	if link, err := netdev.Find(model.NodeInterface); err != nil {
		return nil, nil, err
	} else if link != nil {
		wanted = append(wanted, h.routesVia(link.Attrs().Index)...)
	}
	portholes, err := hostLinks()
	return wanted, func(r route) bool { return !portholes[r.link] }, err
}

// routesVia are the routes by the default Network's router.
func (h Host) routesVia(link int) []route {
	var out []route
	for _, gateway := range h.Gateways {
		source, has := h.address(gateway)
		if !has {
			continue
		}
		for _, p := range ofFamily(append(slices.Clone(h.Default), h.Cluster.Faces...), gateway) {
			onLink := slices.ContainsFunc(h.Addresses, func(a netip.Prefix) bool { return a.Masked() == p })
			// A block as wide as the range is all there is.
			if !onLink && !slices.Contains(h.Blocks, p) {
				out = append(out, route{to: p, via: gateway, link: link, source: source, table: unix.RT_TABLE_MAIN})
			}
		}
	}
	return out
}

// hostLinks are the indexes of the node's interfaces to portholes.
func hostLinks() (map[int]bool, error) {
	links, err := listLinks()
	out := map[int]bool{}
	for _, link := range links {
		if strings.HasPrefix(link.Attrs().Name, hostPrefix) {
			out[link.Attrs().Index] = true
		}
	}
	return out, err
}

// routeFaces sets the routes to the faces of a porthole's pods, and takes away what is too many.
func (k *Keeper) routeFaces(spec Spec) error {
	index, err := faceLink(spec)
	if err != nil {
		return err
	}
	return setRoutes(k.faceRoutes(spec, spec.Pods, index), func(r route) bool { return r.link == index })
}

// changeFaces adds the routes of pods that come to a porthole and removes those of pods that go, and looks at no others
// unless one is in the way.
func (k *Keeper) changeFaces(spec Spec, gone, come []Pod) error {
	index, err := faceLink(spec)
	if err != nil {
		return err
	}
	for _, r := range k.faceRoutes(spec, gone, index) {
		// Whatever source it has: the node may have got its address since.
		r.source = netip.Addr{}
		if err := deleteRoute(*r.netlink(), r); err != nil {
			return err
		}
	}
	for _, r := range k.faceRoutes(spec, come, index) {
		if err := addRoute(r); errors.Is(err, unix.EEXIST) {
			return k.routeFaces(spec)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// faceLink is the index of the node's end of the link to a porthole, over which its faces are reached.
func faceLink(spec Spec) (int, error) {
	link, err := netdev.LinkOf(spec.id().HostLink())
	if err != nil {
		return 0, err
	}
	for _, family := range families(spec.hasIPv6()) {
		if err := neighbour(link, hopFor(family).porthole, portholeMAC); err != nil {
			return 0, err
		}
	}
	return link.Attrs().Index, nil
}

// faceRoutes are the routes to the faces of pods over a link.
func (k *Keeper) faceRoutes(spec Spec, pods []Pod, link int) []route {
	k.mu.Lock()
	node := k.host.spec
	k.mu.Unlock()
	var out []route
	for _, pod := range pods {
		if pod.Face.Is6() && !spec.hasIPv6() {
			continue
		}
		source, _ := node.address(pod.Face)
		out = append(out, route{
			to: host(pod.Face), via: hopFor(pod.Face).porthole, link: link, source: source, table: unix.RT_TABLE_MAIN,
		})
	}
	return out
}

// forwardPackets makes the node a router, which it must be for its pods. Interfaces that learn their routes from router
// advertisements go on doing so, which a router does only when told. (ip-sysctl, accept_ra.)
func forwardPackets(ipv6 bool) error {
	const ipv4Forward, ipv6Forward = "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"
	if !isOn(ipv4Forward) {
		if err := netdev.Set("", netdev.Setting{Protocol: "ipv4", Key: "ip_forward", Value: "1"}); err != nil {
			return err
		}
	}
	if !ipv6 || isOn(ipv6Forward) {
		return nil
	}
	learning, err := filepath.Glob("/proc/sys/net/ipv6/conf/*/accept_ra")
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	for _, file := range learning {
		if isOn(file) {
			name := filepath.Base(filepath.Dir(file))
			if err := netdev.Set(name, netdev.Setting{Protocol: "ipv6", Key: "accept_ra", Value: "2"}); err != nil {
				return err
			}
		}
	}
	return netdev.Set(netdev.AllInterfaces, netdev.Setting{Protocol: "ipv6", Key: "forwarding", Value: "1"})
}

func isOn(file string) bool {
	value, err := os.ReadFile(file)
	return err == nil && strings.TrimSpace(string(value)) == "1"
}
