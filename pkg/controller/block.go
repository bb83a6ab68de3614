package controller

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/model"
)

// blocks are the blocks of policies of one Network that mean its pods one by one, found by an address: a pod looks once for
// each length that their prefixes have, whatever their number.
type blocks struct {
	by map[netip.Prefix]map[string]model.Block
	// lengths counts the prefixes of each length, of IPv4 and of IPv6.
	lengths [2]map[int]int
}

func (s *policies) blocksOf(network string) *blocks {
	if s.blocks[network] == nil {
		s.blocks[network] = &blocks{by: map[netip.Prefix]map[string]model.Block{}, lengths: [2]map[int]int{{}, {}}}
	}
	return s.blocks[network]
}

func (x *blocks) add(b model.Block) {
	p := b.CIDR.Masked()
	if x.by[p] == nil {
		x.by[p] = map[string]model.Block{}
		x.lengths[b2i(p.Addr().Is6())][p.Bits()]++
	}
	x.by[p][b.String()] = b
}

// remove reports whether none is left.
func (x *blocks) remove(b model.Block) bool {
	p := b.CIDR.Masked()
	delete(x.by[p], b.String())
	if len(x.by[p]) == 0 {
		delete(x.by, p)
		tally(x.lengths[b2i(p.Addr().Is6())], p.Bits(), -1)
	}
	return len(x.by) == 0
}

// meaning are the blocks that mean who has these addresses.
func (x *blocks) meaning(addresses []netip.Addr) map[string]model.Block {
	out := map[string]model.Block{}
	for _, a := range addresses {
		for bits := range x.lengths[b2i(a.Is6())] {
			p, err := a.Prefix(bits)
			if err != nil {
				continue
			}
			for text, b := range x.by[p] {
				if b.Means(addresses) {
					out[text] = b
				}
			}
		}
	}
	return out
}

// knownBy are all addresses that a pod is known by: its own, and its faces.
func knownBy(a model.Attachment) []netip.Addr {
	out := make([]netip.Addr, 0, len(a.Addresses)+len(a.Faces))
	for _, own := range a.Addresses {
		out = append(out, own.Addr())
	}
	return append(out, a.Faces...)
}
