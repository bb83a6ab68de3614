package ledger

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Faces holds the faces of pods: which node has which blocks of the ranges, which pod has which face, and who waits for one.
type Faces struct {
	// Freed tells of nodes where faces have come free.
	Freed *pass.Topic[string]
	// Waiting are the pods that wait for a face, by their nodes.
	Waiting pass.Index[string, model.PodKey]

	ranges []*alloc.Blocks
	// blocks are the pools of each node, at most one per range, IPv4 first.
	blocks map[string][]*Pool
}

// maxBlocksBits bounds the number of blocks of a range: 2 to this power are more than the nodes of any cluster.
const maxBlocksBits = 20

// NewFaces makes the books of ranges that are divided into blocks of 2 to the power of blockBits addresses. Stage is the last in
// which faces come free.
func NewFaces(ranges []netip.Prefix, blockBits int, stage pass.Stage) *Faces {
	f := &Faces{Freed: pass.NewTopic[string](stage), Waiting: pass.Index[string, model.PodKey]{}, blocks: map[string][]*Pool{}}
	for _, cidr := range ranges {
		bits := cidr.Addr().BitLen() - blockBits
		// The first part of a range will do that has far more blocks than anybody has nodes.
		if cidr.IsValid() && bits-cidr.Bits() > maxBlocksBits {
			cidr = netip.PrefixFrom(cidr.Addr(), bits-maxBlocksBits).Masked()
		}
		// Whoever reads the settings has refused what is no range.
		if r, err := alloc.NewBlocks(cidr, bits); err == nil {
			f.ranges = append(f.ranges, r)
		}
	}
	return f
}

// Ranges are where faces are from.
func (f *Faces) Ranges() []netip.Prefix {
	out := make([]netip.Prefix, 0, len(f.ranges))
	for _, r := range f.ranges {
		out = append(out, r.Range())
	}
	return out
}

// Any reports whether pods have faces.
func (f *Faces) Any() bool { return len(f.ranges) > 0 }

// Contains reports whether an address is of the ranges of faces.
func (f *Faces) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(f.ranges, func(r *alloc.Blocks) bool { return r.Range().Contains(a) })
}

// Keep gives a node of each range, of which it has no block, the first of blocks that is free.
func (f *Faces) Keep(node string, blocks []netip.Prefix) {
	for _, r := range f.ranges {
		if f.Pool(node, r.Range().Addr().Is4()) == nil {
			f.take(node, r, blocks)
		}
	}
}

// Reclaim gives a node without blocks those that faces are of. It reports whether the node had none.
func (f *Faces) Reclaim(node string, faces []netip.Addr) bool {
	if len(f.blocks[node]) > 0 {
		return false
	}
	for _, r := range f.ranges {
		var blocks []netip.Prefix
		for _, face := range faces {
			if block, ok := r.Holding(face); ok {
				blocks = append(blocks, block)
			}
		}
		f.take(node, r, blocks)
	}
	return true
}

func (f *Faces) take(node string, r *alloc.Blocks, blocks []netip.Prefix) {
	for _, block := range blocks {
		if outcome, _ := r.Take(block, node); outcome == alloc.Taken {
			f.add(node, block)
			return
		}
	}
}

// Give gives a node a block of each range of which it has none, and returns the ranges that have none left.
func (f *Faces) Give(node string) (full []netip.Prefix) {
	for _, r := range f.ranges {
		if f.Pool(node, r.Range().Addr().Is4()) != nil {
			continue
		}
		if block, ok := r.Next(node); ok {
			f.add(node, block)
		} else {
			full = append(full, r.Range())
		}
	}
	return full
}

func (f *Faces) add(node string, block netip.Prefix) {
	// A block is short enough for any pool.
	pool, err := NewPool(block, nil)
	if err != nil {
		return
	}
	f.blocks[node] = append(f.blocks[node], pool)
	slices.SortFunc(f.blocks[node], func(a, b *Pool) int { return a.Prefix().Addr().Compare(b.Prefix().Addr()) })
}

// Forget takes the blocks of a node that has gone. It reports false, and takes nothing, while pods have faces of them.
func (f *Faces) Forget(node string) bool {
	pools := f.blocks[node]
	if slices.ContainsFunc(pools, func(pool *Pool) bool { return pool.Used() > 0 }) {
		return false
	}
	for _, pool := range pools {
		for _, r := range f.ranges {
			r.Release(pool.Prefix(), node)
		}
	}
	delete(f.blocks, node)
	return true
}

// Nodes are those that have blocks, in no order.
func (f *Faces) Nodes() []string {
	out := make([]string, 0, len(f.blocks))
	for node := range f.blocks {
		out = append(out, node)
	}
	return out
}

// Pools are those of a node, IPv4 first.
func (f *Faces) Pools(node string) []*Pool { return f.blocks[node] }

// Pool is a node's of one IP family; nil when it has none.
func (f *Faces) Pool(node string, v4 bool) *Pool {
	for _, pool := range f.blocks[node] {
		if pool.Prefix().Addr().Is4() == v4 {
			return pool
		}
	}
	return nil
}

// Blocks are those of a node, IPv4 first.
func (f *Faces) Blocks(node string) []netip.Prefix {
	blocks := make([]netip.Prefix, 0, len(f.blocks[node]))
	for _, pool := range f.blocks[node] {
		blocks = append(blocks, pool.Prefix())
	}
	return blocks
}

// Holder is the pod that has a face; false when nobody has it.
func (f *Faces) Holder(face netip.Addr) (model.PodKey, bool) {
	for _, r := range f.ranges {
		if pool := f.Pool(r.Holder(face), face.Is4()); pool != nil {
			holder, held := pool.Holder(face)
			key, _ := PodOf(holder)
			return key, held
		}
	}
	return model.PodKey{}, false
}

// Release gives a pod's faces back, and tells of it.
func (f *Faces) Release(node string, faces []netip.Addr, pod model.PodKey) {
	Release(f.blocks[node], faces, Pod(pod))
	f.Freed.Changed(node)
}
