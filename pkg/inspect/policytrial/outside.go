package policytrial

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
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

// regions divide the addresses of an IP family by prefixes: one region is in the same prefixes. Addresses that others have,
// prefixes too, are in none; a region that has no more is left out.
func regions(network string, v4 bool, prefixes, others []netip.Prefix, spend func(int) error) ([]*region, error) {
	all := netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	if v4 {
		all = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	list, known := []netip.Prefix{all}, map[netip.Prefix]bool{all: true}
	for _, p := range prefixes {
		if p = p.Masked(); p.Addr().Is4() == v4 && !known[p] {
			list, known[p] = append(list, p), true
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
		if err := spend(1 + len(list)/trace.ValuesOfWork); err != nil {
			return nil, err
		}
		g := Group{Kind: Outside, Network: network, CIDR: p}
		for _, inner := range list {
			if inner.Bits() > p.Bits() && p.Contains(inner.Addr()) {
				g.Except = append(g.Except, inner)
			}
		}
		a, some, err := anyIn(p, slices.Concat(g.Except, others), spend)
		if err != nil {
			return nil, err
		}
		if some {
			out = append(out, &region{g, a})
		}
	}
	return out, nil
}

// anyIn is an address of a prefix that is in none of the holes; false when there is none.
func anyIn(p netip.Prefix, holes []netip.Prefix, spend func(int) error) (netip.Addr, bool, error) {
	for _, first := range []netip.Addr{somewhere(p.Addr().Is4()), p.Addr()} {
		for a := first; a.IsValid() && p.Contains(a); {
			if err := spend(1 + len(holes)/trace.ValuesOfWork); err != nil {
				return a, false, err
			}
			at := slices.IndexFunc(holes, func(h netip.Prefix) bool { return h.Contains(a) })
			if at < 0 {
				return a, true, nil
			}
			a = behind(holes[at])
		}
	}
	return netip.Addr{}, false, nil
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
