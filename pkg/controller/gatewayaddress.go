package controller

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/alloc"
	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// DefaultGateways are the ranges of Gateways' addresses of a cluster that says nothing else: each Network has them for
// itself. (RFC 2544; RFC 4193.)
func DefaultGateways() []string { return []string{"198.18.0.0/16", "fd64:a702::/64"} }

// ParseGateways reads ranges of Gateways' addresses, at most one per IP family.
func ParseGateways(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		if p != p.Masked() {
			return nil, fmt.Errorf("%s has host bits set; write %s", p, p.Masked())
		}
		if _, err := alloc.New(p, nil); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o netip.Prefix) bool { return o.Addr().Is4() == p.Addr().Is4() }) {
			return nil, fmt.Errorf("%s is a second range of its IP family", p)
		}
		out = append(out, p)
	}
	return out, nil
}

// gates are the controller's ranges in a Network: without what is in a subnet, where a client would look for the address on its
// own link, and without faces and the cluster's Services.
func (s *State) gates(n *network) *alloc.Ranges {
	if n.gates != nil {
		return n.gates
	}
	var taken []model.AddrRange
	for _, subnet := range n.layout.Subnets {
		for _, r := range subnet.Ranges {
			taken = append(taken, compile.AddrRangeOf(r.CIDR))
		}
	}
	for _, of := range slices.Concat(s.defaults.Faces, s.defaults.Services) {
		taken = append(taken, compile.AddrRangeOf(of))
	}
	// Whoever reads the flag has refused what no pool can serve.
	n.gates, _ = alloc.NewRanges(s.defaults.Gateways, taken...)
	if n.gates == nil {
		n.gates, _ = alloc.NewRanges(nil)
	}
	return n.gates
}

// rangesOf are where the Gateways of a Network get addresses of an IP family: its own service ranges, if it has one of that
// family, else the controller's.
func (s *State) rangesOf(n *network, like netip.Addr) *alloc.Ranges {
	if _, own := n.vips.ranges.Range(like); own {
		return n.vips.ranges
	}
	return s.gates(n)
}

func (g *gateway) owner() nb.Owner { return nb.GatewayOwner(g.Key.Namespace, g.Key.Name) }

// held are the addresses that a Gateway has in a Network, IPv4 first.
func (s *State) held(g *gateway, n *network) []netip.Addr {
	return slices.SortedFunc(slices.Values(slices.Concat(n.vips.ranges.Held(string(g.owner())), s.gates(n).Held(string(g.owner())))), netip.Addr.Compare)
}

// leaveAddresses ends a Gateway's hold on its addresses.
func (s *State) leaveAddresses(g *gateway) {
	if n := s.networks[g.network]; n != nil && len(g.addresses) > 0 {
		g.former = g.addresses
		n.vips.ranges.Release(string(g.owner()))
		s.gates(n).Release(string(g.owner()))
		s.freeVIPs(n)
	}
	g.addresses = nil
}

// freeVIPs has those decided about again that wait for an address of a Network.
func (s *State) freeVIPs(n *network) {
	s.touched[n.name], s.vips.freed[n.name] = struct{}{}, struct{}{}
	s.wakeGateways(n.name)
}

// wakeGateways marks the Gateways of a Network that lack an address.
func (s *State) wakeGateways(network string) {
	for key := range s.gateways.concerned[concern{what: aboutNetwork, name: network}] {
		if g := s.gateways.byKey[key]; g != nil && (g.wanting != nil || g.unusable != nil) {
			s.gateways.dirty[key] = struct{}{}
		}
	}
}

// keepAddresses takes what a Gateway has, or by its status had, and still asks for: before anybody gets anything new.
func (s *State) keepAddresses(g *gateway) {
	n := s.networks[g.network]
	g.listeners = listenersOf(*g.Gateway)
	if !g.ours || s.unserved(g, n) != nil || !g.accepted().Status {
		return
	}
	keep := g.addresses
	if !g.resumed {
		keep = slices.DeleteFunc(slices.Clone(g.former), func(a netip.Addr) bool { return !g.asksFor(a) })
	}
	g.resumed = true
	// An address of a range that is not the Network's any more is nobody's.
	for _, of := range []*alloc.Ranges{n.vips.ranges, s.gates(n)} {
		for _, a := range of.Held(string(g.owner())) {
			if s.rangesOf(n, a) != of {
				of.Drop(string(g.owner()), a)
			}
		}
	}
	for _, a := range keep {
		s.rangesOf(n, a).Take(string(g.owner()), a)
	}
	g.addresses = s.held(g, n)
}

// asksFor reports whether an address is one that the Gateway asks for, or any will do.
func (g *gateway) asksFor(a netip.Addr) bool {
	return len(g.Addresses) == 0 || slices.ContainsFunc(g.Addresses, func(wish model.GatewayAddress) bool {
		return wish.Addr == a || !wish.Addr.IsValid()
	})
}

// address gives a Gateway its addresses, one of an IP family at most: what it asks for, else what it has or had, else the
// next free.
func (s *State) address(g *gateway, n *network) {
	g.unusable = nil
	if g.wanting = s.unserved(g, n); g.wanting != nil || !g.accepted().Status {
		s.leaveAddresses(g)
		return
	}
	before := g.addresses
	var refused []string
	for _, family := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		refused = append(refused, s.addressOf(g, n, family)...)
	}
	g.addresses = s.held(g, n)
	if !slices.Equal(before, g.addresses) {
		s.touched[n.name] = struct{}{}
		if len(before) > 0 {
			s.freeVIPs(n)
		}
	}
	if len(refused) > 0 {
		g.unusable = &model.Problem{Reason: model.ReasonAddressNotUsable, Message: strings.Join(refused, "; ")}
	} else if len(g.addresses) == 0 {
		g.wanting = &model.Problem{
			Reason: model.ReasonAddressNotAssigned,
			Message: fmt.Sprintf("no address is free for Gateways of Network %q in %s: others have them, or subnets of the Network hold them",
				n.name, texts(s.gatewayRanges(n))),
		}
	}
}

// addressOf gives a Gateway its address of one IP family, and says why it does not get what it asks for.
func (s *State) addressOf(g *gateway, n *network, family netip.Addr) (refused []string) {
	owner, ranges := string(g.owner()), s.rangesOf(n, family)
	anything, got := len(g.Addresses) == 0, false
	for _, wish := range g.Addresses {
		switch a := wish.Addr; {
		case !a.IsValid():
			anything = true
		case a.Is4() != family.Is4():
		case got:
			refused = append(refused, fmt.Sprintf("%s is a second address of its IP family", a))
		default:
			why := s.takeVIP(g, n, a)
			if got = why == ""; !got {
				refused = append(refused, fmt.Sprintf("%s %s", a, why))
			}
		}
	}
	switch {
	case got:
	case !anything || !n.layout.Has(family.Is4()):
		ranges.Drop(owner, family)
	default:
		for _, a := range g.former {
			if held := slices.ContainsFunc(ranges.Held(owner), func(h netip.Addr) bool { return h.Is4() == family.Is4() }); !held && a.Is4() == family.Is4() {
				ranges.Take(owner, a)
			}
		}
		ranges.Next(owner, family)
	}
	return refused
}

// takeVIP takes one address; its answer says why not.
func (s *State) takeVIP(g *gateway, n *network, a netip.Addr) string {
	switch outcome, other := s.rangesOf(n, a).Take(string(g.owner()), a); outcome {
	case alloc.Reserved:
		return "is the range's own, or in a subnet of the Network"
	case alloc.InUse:
		return "belongs to " + other
	case alloc.Outside:
		return fmt.Sprintf("is in no range of Gateways of Network %q (%s)", n.name, texts(s.gatewayRanges(n)))
	}
	return ""
}

// gatewayRanges are the ranges that a Network's Gateways get addresses from.
func (s *State) gatewayRanges(n *network) []netip.Prefix {
	var out []netip.Prefix
	for _, family := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if r, has := s.rangesOf(n, family).Range(family); has {
			out = append(out, r)
		}
	}
	return out
}

// unserved says why no Gateway of g's namespace can be served; nil when it can.
func (s *State) unserved(g *gateway, n *network) *model.Problem {
	ns := s.namespaces[g.Key.Namespace]
	switch {
	case ns == nil:
		return &model.Problem{Reason: model.ReasonPending, Message: "the namespace is not known yet"}
	case n == nil || n.model == nil, !n.standard && !n.admits(*ns):
		return s.notFound(choice{network: g.network, by: byNamespace}, ns)
	case !n.serves():
		return &model.Problem{Reason: model.ReasonNetworkInvalid, Message: fmt.Sprintf("Network %q is not served; its conditions say why", n.name)}
	}
	return nil
}
