package engine

import (
	"slices"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// deferral says how often in a row Networks were left out of a batch.
type deferral map[string]int

// chooseNetworks returns the Networks that the batch leaves out. It leaves out whole ones, where more decides what passes than one
// transaction takes: half of a Network's policies could be open where neither the old ones nor the new ones are. Networks that were left
// out before come first, so that nobody's policies wait for as long as others change theirs.
func (r *round) chooseNetworks(b *batch) deferral {
	var (
		order []string
		sizes = map[string]int{}
		sum   int
	)
	if r.graph.Judging() == 0 {
		return nil
	}
	for w := range r.graph.Waiting {
		// New ports do not come before the rest, whatever their number.
		if !w.Grouped() || b.fresh(w) {
			continue
		}
		network := r.networkOf(w)
		if _, known := sizes[network]; !known {
			order = append(order, network)
		}
		n := r.sizeOf(b, w)
		sizes[network] += n
		sum += n
	}
	room := together * r.cfg.MaxBatch
	if sum <= room {
		return nil
	}
	slices.SortStableFunc(order, func(x, y string) int { return r.deferred[y] - r.deferred[x] })
	left := deferral{}
	for i, network := range order {
		// What is of no Network, or of several, is in each batch.
		if i > 0 && network != "" && sizes[network] > room {
			left[network] = r.deferred[network] + 1
		} else {
			room -= sizes[network]
		}
	}
	return left
}

// leftOut reports whether work is of a Network of which nothing is in this batch.
func (r *round) leftOut(w graph.Work) bool {
	return len(r.deferred) > 0 && r.deferred[r.networkOf(w)] > 0
}

// networkOf is the Network to which work belongs: its owner's, or the one where the owner wants its first place, or had one. It is ""
// when there is none.
func (r *round) networkOf(w graph.Work) string {
	if network, ok := w.Owner.Network(); ok {
		return network
	}
	of := func(m nb.Member) string {
		owner, _ := r.graph.Owner(m.Row)
		network, _ := owner.Network()
		return network
	}
	facts, _ := r.graph.Facts(w.Owner)
	for _, m := range facts.Members {
		if network := of(m); network != "" {
			return network
		}
	}
	for m := range w.Members {
		if network := of(m); network != "" {
			return network
		}
	}
	return ""
}

// sizeOf is about how many rows and elements differ from the database on account of work.
func (r *round) sizeOf(b *batch, w graph.Work) (n int) {
	for ref := range w.Refs {
		_, wanted := r.graph.Row(ref)
		if there := b.there.Has(ref); wanted == there {
			continue
		}
		n++
		for _, column := range nb.MemberColumns(ref.Table) {
			n += r.graph.Size(nb.Set{Row: ref, Column: column})
		}
	}
	for m := range w.Members {
		if b.there.HasMember(m) != r.graph.Wants(m) {
			n++
		}
	}
	return n
}
