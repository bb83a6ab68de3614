package world

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// speakers is how many nodes' agents speak for the controller while none leads.
const speakers = 3

// Speaks reports whether this node is one of those that speak for the controller: the first by a hash of their names, so that they are not
// neighbours.
func (w *World) Speaks() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	rank := func(name string) uint64 {
		h := fnv.New64a()
		h.Write([]byte(name))
		return h.Sum64()
	}
	before := 0
	for name := range w.nodes {
		if name != w.self && cmp.Or(cmp.Compare(rank(name), rank(w.self)), cmp.Compare(name, w.self)) < 0 {
			before++
		}
	}
	return w.nodes[w.self] != nil && before < speakers
}

// Networks are those of the cluster, by name.
func (w *World) Networks() []*model.Network {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Values(w.networks), func(a, b *model.Network) int { return cmp.Compare(a.Name, b.Name) })
}
