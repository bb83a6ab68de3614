package world

import (
	"net/netip"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// databasePorts are those of OVN's databases where nothing else is said, and of the servers of each among themselves: northbound
// and southbound (ovn-ctl(8)); and the one at which package central serves the southbound database with all rights (FullPort),
// which no node's ovn-remote names.
var databasePorts = []uint16{6641, 6642, 6643, 6644, 16642, 16643, 16644}

// underlay is what OVN itself uses, as this node has it.
type underlay struct {
	vswitch.Underlay
	// links have the node's own tunnels' addresses.
	links map[netip.Addr]string
}

// SetUnderlay records what OVN itself uses.
func (w *World) SetUnderlay(u vswitch.Underlay, links map[netip.Addr]string) {
	w.update(func() bool {
		now := underlay{u, links}
		w.wired = true
		if reflect.DeepEqual(w.underlay, now) {
			return false
		}
		w.underlay = now
		return true
	})
}

// shown are the nodes' addresses in the API: whoever has direct access reaches those. A kubelet writes its Node's addresses: one
// at which OVN has another node's tunnel does not count, since a stolen node would open that tunnel's address to pods. It is
// called with the lock held.
func (w *World) shown() map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for name, n := range w.nodes {
		for _, a := range n.Addresses {
			if of := w.tunnelOf(a); of == "" || of == name {
				out[a] = true
			}
		}
	}
	return out
}

// tunnelOf returns the node whose tunnel has an address, according to OVN. It does not use nodes' reports, because an agent could
// close another node's own address by a report. It is empty when no tunnel has the address, or no Node has the name of the
// tunnel's chassis. The lock must be held.
func (w *World) tunnelOf(a netip.Addr) string {
	if slices.Contains(w.underlay.Own, a) {
		return w.self
	}
	if name := w.underlay.Chassis[a]; w.nodes[name] != nil {
		return name
	}
	return ""
}

// closed returns what no Network's pods reach, whatever access they have: addresses of tunnels and of the databases' machines,
// except those by which the API knows a node. The lock must be held.
func (w *World) closed() []netip.Prefix {
	out, shown := slices.Clone(w.infra.Closed), w.shown()
	for _, a := range w.isolated() {
		if !shown[a] {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out
}

// isolated are the addresses that OVN itself uses. It is called with the lock held.
func (w *World) isolated() []netip.Addr {
	out := slices.Concat(w.underlay.Own, w.underlay.Peers)
	for _, server := range w.underlay.Southbound {
		out = append(out, server.Addr())
	}
	for _, r := range w.heard() {
		out = append(out, r.Tunnels...)
	}
	return out
}

// walls are between pods and OVN itself. It is called with the lock held.
func (w *World) walls() porthole.Walls {
	out := porthole.Walls{TunnelPorts: w.underlay.Ports, Balancers: w.infra.Balancers}
	shown := w.shown()
	for _, server := range w.underlay.Southbound {
		if !shown[server.Addr()] {
			continue
		}
		for _, port := range append(slices.Clone(databasePorts), server.Port()) {
			out.Databases = append(out.Databases, netip.AddrPortFrom(server.Addr(), port))
		}
	}
	for tunnel, link := range w.underlay.links {
		if other, has := w.besides(tunnel); has && link != "" {
			out.Instead = append(out.Instead, porthole.Instead{Link: link, Address: other})
		}
	}
	return out
}

// besides is the node's address of a tunnel's family by which the API knows it, if no tunnel has that. It is called with the lock held.
func (w *World) besides(tunnel netip.Addr) (netip.Addr, bool) {
	self := w.nodes[w.self]
	if self == nil {
		return netip.Addr{}, false
	}
	for _, a := range self.Addresses {
		if a.Is4() == tunnel.Is4() && slices.Contains(w.local, a) && !slices.Contains(w.underlay.Own, a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// flat are the Networks whose pods leave by the node's own links. It is called with the lock held.
func (w *World) flat() []porthole.Flat {
	var out []porthole.Flat
	for _, n := range w.networks {
		if n.Type != model.Flat {
			continue
		}
		subnets := w.infra.subnetsOf(n)
		if self := w.nodes[w.self]; self != nil && self.Assigned != nil && self.Assigned.NetworkUID != n.UID {
			// One that overlaps another Network's is not served, and says nothing about who has these addresses.
			subnets = slices.DeleteFunc(subnets, func(p netip.Prefix) bool { return !slices.Contains(self.Assigned.Flat, p) })
		}
		out = append(out, porthole.Flat{Subnets: subnets, Egress: n.Egress, Infra: n.Infra})
	}
	return out
}
