package policytrial

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/model"
)

// region is a group of addresses outside, and one of them.
type region struct {
	Group
	address netip.Addr
}

// somewhere are the addresses that stand for any, where a region has them: those of documents. (RFC 5737, RFC 3849.)
func somewhere(v4 bool) netip.Addr {
	if v4 {
		return netip.MustParseAddr("203.0.113.77")
	}
	return netip.MustParseAddr("2001:db8:7777::77")
}

// regions divide the addresses of an IP family by prefixes: one region is in the same prefixes. Addresses that others have, prefixes too, are in
// none; a region that has no more is left out.
func regions(network string, v4 bool, prefixes, others []netip.Prefix) []*region {
	all := netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	if v4 {
		all = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	list := []netip.Prefix{all}
	for _, p := range prefixes {
		if p.Addr().Is4() == v4 && !slices.Contains(list, p.Masked()) {
			list = append(list, p.Masked())
		}
	}
	slices.SortFunc(list, func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})
	var out []*region
	for _, p := range list {
		g := Group{Kind: Outside, Network: network, CIDR: p}
		for _, inner := range list {
			if inner.Bits() > p.Bits() && p.Contains(inner.Addr()) {
				g.Except = append(g.Except, inner)
			}
		}
		if a, some := anyIn(p, slices.Concat(g.Except, others)); some {
			out = append(out, &region{g, a})
		}
	}
	return out
}

// anyIn is an address of a prefix that is in none of the holes; false when there is none.
func anyIn(p netip.Prefix, holes []netip.Prefix) (netip.Addr, bool) {
	for _, first := range []netip.Addr{somewhere(p.Addr().Is4()), p.Addr()} {
		for a := first; a.IsValid() && p.Contains(a); {
			at := slices.IndexFunc(holes, func(h netip.Prefix) bool { return h.Contains(a) })
			if at < 0 {
				return a, true
			}
			a = behind(holes[at])
		}
	}
	return netip.Addr{}, false
}

// prefixesOf are the ranges that policies name in a direction of who they select, and those that they leave out.
func prefixesOf(policies []*model.Policy, k *kin, d model.Direction) (out []netip.Prefix) {
	for _, p := range policies {
		if !p.Subject.Matches(k.target) {
			continue
		}
		for _, r := range p.Rules[d] {
			for _, peer := range r.Peers {
				if peer.Block != nil {
					out = append(append(out, peer.Block.CIDR), peer.Block.Except...)
				}
			}
		}
	}
	return out
}

// behind is the address behind a prefix; not valid behind the last one that there is.
func behind(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last.Next()
}
