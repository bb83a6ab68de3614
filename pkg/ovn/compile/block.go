package compile

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// BlockGroup are the ports of the pods that a block means, by their own addresses or by their faces.
func BlockGroup(b model.Block) Group { return Group("block " + b.String()) }

// byPods reports whether a block means pods of the Network one by one: it tells their faces apart, or holds faces and not
// the pods' own addresses. Of other blocks the range itself says which pods they mean.
func (in Around) byPods(b model.Block) bool {
	v4 := b.CIDR.Addr().Is4()
	at := slices.IndexFunc(in.Faces, func(f netip.Prefix) bool { return f.Addr().Is4() == v4 })
	if at < 0 || !in.Layout.Has(v4) || !b.CIDR.Overlaps(in.Faces[at]) {
		return false
	}
	if slices.ContainsFunc(b.Except, in.Faces[at].Overlaps) {
		return true
	}
	return slices.ContainsFunc(in.subnets(v4), func(own netip.Prefix) bool { return !contains(b.CIDR, own) })
}

// addresses are the prefixes of one IP family that a block means. Where it means pods one by one these are those of nobody
// in the Network: its pods are in the group.
func (in Around) addresses(b model.Block, v4 bool) []netip.Prefix {
	outside := b
	if in.byPods(b) {
		outside.Except = append(slices.Clone(b.Except), in.subnets(v4)...)
	}
	return in.withHosts(b, blockPrefixes(outside, v4), v4)
}

// Host is a node as policies know it.
type Host struct {
	// Seen are its addresses in the default Network: packets that it sends to pods of other nodes have one of these as source.
	Seen []netip.Addr
	// Known are the addresses that its Node object shows.
	Known []netip.Addr
}

// Concerns reports whether a block's range holds one of the node's addresses.
func (h Host) Concerns(b model.Block) bool {
	return slices.ContainsFunc(h.Known, b.CIDR.Contains) || slices.ContainsFunc(h.Seen, b.CIDR.Contains)
}

// withHosts are the prefixes of a block with what pods see of nodes. A block means a node, for what it sends, when the block
// holds one of the node's addresses and leaves none out: its author knows those that the Node object shows.
func (in Around) withHosts(b model.Block, prefixes []netip.Prefix, v4 bool) []netip.Prefix {
	if !b.CIDR.IsValid() || b.CIDR.Addr().Is4() != v4 {
		return prefixes
	}
	var less []netip.Prefix
	for _, h := range in.Hosts {
		if !h.Concerns(b) {
			continue
		}
		all := slices.DeleteFunc(slices.Concat(h.Known, h.Seen), func(a netip.Addr) bool { return a.Is4() != v4 })
		for _, seen := range h.Seen {
			if seen.Is4() != v4 || in.hidden(seen) {
				continue
			}
			one := netip.PrefixFrom(seen, seen.BitLen())
			switch means := b.Means(all); {
			case means == b.Contains(seen):
			case means:
				prefixes = append(prefixes, one)
			default:
				less = append(less, one)
			}
		}
	}
	if len(less) == 0 {
		return prefixes
	}
	var out []netip.Prefix
	for _, p := range prefixes {
		out = carve(out, p, less)
	}
	return out
}

// hidden reports whether a node's address is one of the Network's own: a pod's. Who comes from there has the porthole's address.
func (in Around) hidden(a netip.Addr) bool {
	return in.Layout.Faces && slices.ContainsFunc(in.subnets(a.Is4()), func(own netip.Prefix) bool { return own.Contains(a) })
}

// subnets are the Network's ranges of one IP family.
func (in Around) subnets(v4 bool) []netip.Prefix {
	var out []netip.Prefix
	for _, r := range in.Layout.Ranges() {
		if r.CIDR.Addr().Is4() == v4 {
			out = append(out, r.CIDR)
		}
	}
	return out
}

func contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}
