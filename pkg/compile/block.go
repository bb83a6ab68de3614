package compile

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/model"
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
	if in.byPods(b) {
		b.Except = append(slices.Clone(b.Except), in.subnets(v4)...)
	}
	return blockPrefixes(b, v4)
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
