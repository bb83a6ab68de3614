package policies

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// blocks are the blocks of policies of one Network that mean its pods one by one, found by an address: a pod looks once for
// each length that their prefixes have, whatever their number.
type blocks struct {
	// byPrefix are the blocks of a prefix, by their texts.
	byPrefix map[netip.Prefix]map[string]model.Block
	// lengths counts the prefixes of each length, of IPv4 and of IPv6.
	lengths [2]map[int]int
}

// family is the place of an address's IP family in lengths.
func family(a netip.Addr) int {
	if a.Is6() {
		return 1
	}
	return 0
}

func (s *Stage) blocksOf(uid string) *blocks {
	if s.blocks[uid] == nil {
		s.blocks[uid] = &blocks{byPrefix: map[netip.Prefix]map[string]model.Block{}, lengths: [2]map[int]int{{}, {}}}
	}
	return s.blocks[uid]
}

func (x *blocks) add(b model.Block) {
	p := b.CIDR.Masked()
	if x.byPrefix[p] == nil {
		x.byPrefix[p] = map[string]model.Block{}
		x.lengths[family(p.Addr())][p.Bits()]++
	}
	x.byPrefix[p][b.String()] = b
}

// remove reports whether none is left.
func (x *blocks) remove(b model.Block) bool {
	p := b.CIDR.Masked()
	delete(x.byPrefix[p], b.String())
	if len(x.byPrefix[p]) == 0 {
		delete(x.byPrefix, p)
		tally(x.lengths[family(p.Addr())], p.Bits(), -1)
	}
	return len(x.byPrefix) == 0
}

// meaning are the blocks that mean who has these addresses.
func (x *blocks) meaning(addresses []netip.Addr) map[string]model.Block {
	out := map[string]model.Block{}
	for _, a := range addresses {
		for bits := range x.lengths[family(a)] {
			p, err := a.Prefix(bits)
			if err != nil {
				continue
			}
			for text, b := range x.byPrefix[p] {
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
