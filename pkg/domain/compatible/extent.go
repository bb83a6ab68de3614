package compatible

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// extent holds the ranges of a Network, or of something else that has addresses. An extent's ranges never change: a Network whose ranges
// change gets a new extent. So what two extents have in common is computed once, whoever asks, and is forgotten with either of them.
type extent struct {
	network string
	tenant  string
	created time.Time
	// parts are the ranges of pods and of Services, in the order in which the owner wrote them.
	parts [parts][]held
	// outline has the same addresses: masked, sorted, and no range within another one.
	outline []netip.Prefix
	// met has the extents that this one was compared with, or that were compared with it. The value is nil if nothing overlaps.
	met map[*extent]*overlaps
}

// notCompared is in met where only the outlines were compared.
var notCompared = &overlaps{}

// part is a part of a Network's ranges.
type part int

const (
	ofPods part = iota
	ofServices
	parts
)

// held is a range, and since when the Network has it.
type held struct {
	cidr  netip.Prefix
	since time.Time
}

// overlaps says which ranges of one extent's parts overlap ranges of another extent's parts: any of those, or those that the other one got
// first.
type overlaps struct {
	any, older [parts][parts]overlap
}

// overlap is the first range of a part that overlaps ranges of another part, and two of these ranges: the first in the order in which the
// owner wrote them, and the least. All are places in their part, from 1; 0: there is none.
type overlap struct {
	place, first, least int
}

// extent makes the extent of a Network as its owner wrote it.
func (s Settings) extent(m *model.Network) *extent {
	all := s.ranges(m)
	e := &extent{network: m.Name, tenant: m.Tenant, created: m.Created}
	for i, r := range all {
		which := ofPods
		if i >= len(all)-len(m.ServiceCIDRs) {
			which = ofServices
		}
		e.parts[which] = append(e.parts[which], held{r, since(m, r)})
	}
	return e.outlined()
}

// extentOf makes an extent of ranges whose age and part does not matter.
func extentOf(ranges []netip.Prefix) *extent {
	e := &extent{}
	for _, r := range ranges {
		e.parts[ofPods] = append(e.parts[ofPods], held{cidr: r})
	}
	return e.outlined()
}

func (e *extent) outlined() *extent {
	e.met = map[*extent]*overlaps{}
	var all []netip.Prefix
	for _, some := range e.parts {
		for _, h := range some {
			if h.cidr.IsValid() {
				all = append(all, h.cidr.Masked())
			}
		}
	}
	// A range comes before those within it, and nothing that is not within it comes between them.
	slices.SortFunc(all, netip.Prefix.Compare)
	for _, r := range all {
		if last := len(e.outline) - 1; last < 0 || !e.outline[last].Overlaps(r) {
			e.outline = append(e.outline, r)
		}
	}
	return e
}

// same reports whether two extents decide the same about everybody.
func (e *extent) same(o *extent) bool {
	if e == nil || o == nil {
		return e == o
	}
	equal := func(a, b held) bool { return a.cidr == b.cidr && a.since.Equal(b.since) }
	return e.network == o.network && e.tenant == o.tenant && e.created.Equal(o.created) &&
		slices.EqualFunc(e.parts[ofPods], o.parts[ofPods], equal) && slices.EqualFunc(e.parts[ofServices], o.parts[ofServices], equal)
}

// forget lets nobody remember an extent that is no more.
func (e *extent) forget() {
	if e == nil {
		return
	}
	for o := range e.met {
		delete(o.met, e)
	}
	clear(e.met)
}

// with returns which ranges of an extent overlap those of another one; nil: none. It counts the comparisons of ranges.
func (e *extent) with(o *extent, work *int) *overlaps {
	*work++
	out, met := e.met[o]
	if !met {
		if crosses(e.outline, o.outline, work) {
			out = notCompared
		}
		e.met[o], o.met[e] = out, out
	}
	if out == notCompared {
		out = e.compare(o, work)
		e.met[o] = out
	}
	return out
}

// crosses reports whether any range of one outline overlaps one of another.
func crosses(a, b []netip.Prefix, work *int) bool {
	for len(a) > 0 && len(b) > 0 {
		*work++
		switch {
		case a[0].Overlaps(b[0]):
			return true
		case a[0].Compare(b[0]) < 0:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}

// compare looks at each range of an extent that lies in the outline of another one.
func (e *extent) compare(o *extent, work *int) *overlaps {
	out := &overlaps{}
	for a := range parts {
		for i, r := range e.parts[a] {
			if r.cidr.IsValid() && crosses(near(o.outline, r.cidr.Masked()), []netip.Prefix{r.cidr.Masked()}, work) {
				for b := range parts {
					e.compareOne(held{r.cidr, r.since}, i+1, o, o.parts[b], &out.any[a][b], &out.older[a][b], work)
				}
			}
		}
	}
	return out
}

// near are the only ranges of an outline that may overlap a range: the last one before it, and what follows.
func near(outline []netip.Prefix, r netip.Prefix) []netip.Prefix {
	i, _ := slices.BinarySearchFunc(outline, r, netip.Prefix.Compare)
	return outline[max(i-1, 0):min(i+1, len(outline))]
}

// compareOne compares a range of an extent with all of a part of another one, as far as none before it did overlap.
func (e *extent) compareOne(r held, at int, o *extent, theirs []held, anyOf, older *overlap, work *int) {
	needAny, needOlder := anyOf.place == 0, older.place == 0
	if !needAny && !needOlder {
		return
	}
	for j, t := range theirs {
		*work++
		if !t.cidr.Overlaps(r.cidr) {
			continue
		}
		if needAny {
			anyOf.take(at, j+1, theirs)
		}
		if needOlder && cmp.Or(t.since.Compare(r.since), o.created.Compare(e.created), cmp.Compare(o.network, e.network)) < 0 {
			older.take(at, j+1, theirs)
		}
	}
}

// take notes that the range at a place overlaps one of theirs.
func (o *overlap) take(at, theirs int, all []held) {
	switch {
	case o.place == 0:
		*o = overlap{at, theirs, theirs}
	case all[theirs-1].cidr.Compare(all[o.least-1].cidr) < 0:
		o.least = theirs
	}
}

// first is the first range of an extent, in the order in which its owner wrote them, that overlaps any of another one's, and the first of
// these.
func (e *extent) first(o *extent, of *[parts][parts]overlap) (mine, theirs netip.Prefix, found bool) {
	for a := range parts {
		var at overlap
		var which part
		for b := range parts {
			if now := of[a][b]; now.place != 0 && (at.place == 0 || now.place < at.place) {
				at, which = now, b
			}
		}
		if at.place != 0 {
			return e.parts[a][at.place-1].cidr, o.parts[which][at.first-1].cidr, true
		}
	}
	return mine, theirs, false
}
