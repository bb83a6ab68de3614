package compatible

import (
	"net/netip"
	"slices"
	"strings"
)

// view is what a consumer's claims came to when they were last decided. When one Network changes, only what has to do with that one is
// decided anew: of Networks that all know each other, each has as many claims as there are Networks, and the verdict on each depends on
// all others.
type view struct {
	known    []place
	claims   []claim
	verdicts []verdict
}

// place is where addresses are that mean something to a consumer's pods already.
type place struct {
	kind    kind
	network string
	extent  *extent
}

// verdict is the first range of a claim that means something else, and the first of what it means: whatever their order, it is the same.
// place is that among the claim's ranges, from 1; 0: no range means anything else.
type verdict struct {
	place int
	with  meaning
}

// or is the one of two verdicts on the same claim that counts.
func (v verdict) or(o verdict) verdict {
	if v.place == 0 || o.place != 0 && (o.place < v.place || o.place == v.place && o.with.before(v.with)) {
		return o
	}
	return v
}

// view decides on a consumer's claims, and remembers it.
func (n *Networks) view(consumer string, claims []claim) *view {
	if len(claims) == 0 {
		delete(n.views, consumer)
		return &view{}
	}
	before := n.views[consumer]
	now := &view{known: n.places(consumer), claims: claims, verdicts: make([]verdict, len(claims))}
	n.views[consumer] = now
	if before == nil || !slices.Equal(before.known, now.known) {
		before = &view{}
	}
	carried, came, gone := now.carry(before)
	for i, c := range claims {
		others := came
		if culprit := now.verdicts[i].with; !carried[i] || culprit.kind == other && slices.Contains(gone, culprit.network) {
			now.verdicts[i], others = n.among(c, now.known), claims
		}
		for _, o := range others {
			now.verdicts[i] = now.verdicts[i].or(n.afterwards(c, o))
		}
	}
	return now
}

// carry takes over the verdicts on claims that are as they were, and returns which these are, the claims that are new, and the providers
// that some claim was of which is not there any more.
func (v *view) carry(before *view) (carried []bool, came []claim, gone []string) {
	carried = make([]bool, len(v.claims))
	old := 0
	drop := func(until func(claim) bool) {
		for old < len(before.claims) && until(before.claims[old]) {
			gone = append(gone, before.claims[old].provider)
			old++
		}
	}
	for i, c := range v.claims {
		drop(func(o claim) bool { return o.order(c) < 0 || o.order(c) == 0 && o.extent != c.extent })
		if old < len(before.claims) && before.claims[old].order(c) == 0 {
			v.verdicts[i], carried[i] = before.verdicts[old], true
			old++
		} else {
			came = append(came, c)
		}
	}
	drop(func(claim) bool { return true })
	return carried, came, gone
}

// places are where addresses are that mean something to a Network's pods, but for those of pods and Services that are known by faces.
func (n *Networks) places(consumer string) []place {
	out := slices.Clone(n.everybodys())
	out = append(out, place{own, consumer, n.extents[consumer]})
	if e := n.keptExtents[consumer]; e != nil {
		out = append(out, place{kept, consumer, e})
	}
	from := len(out)
	for name := range n.joints.with[consumer] {
		out = append(out, place{joined, name, n.extents[name]})
	}
	slices.SortFunc(out[from:], func(a, b place) int { return strings.Compare(a.network, b.network) })
	return out
}

// everybodys are the places that mean the same to the pods of all Networks. They are made once, until a flat Network changes.
func (n *Networks) everybodys() []place {
	if n.common != nil {
		return n.common
	}
	var flats []netip.Prefix
	for name := range n.flats {
		flats = slices.Concat(flats, n.ranges[name], n.kept[name])
	}
	n.common = []place{{cluster, "", extentOf(n.settings.Taken)}, {flat, "", extentOf(flats)}}
	return n.common
}

// forgetEverybodys is called when a flat Network changes.
func (n *Networks) forgetEverybodys() {
	for _, p := range n.common {
		p.extent.forget()
	}
	n.common = nil
}

// among says what of a claim means something in any of some places.
func (n *Networks) among(c claim, some []place) (out verdict) {
	for _, p := range some {
		if o := c.extent.with(p.extent, &n.work); o != nil {
			for b := range parts {
				out = out.or(verdictOf(o.any[c.part][b], p.extent, b, p.kind, p.network))
			}
		}
	}
	return out
}

// afterwards says what of a claim another provider had first.
func (n *Networks) afterwards(c, o claim) verdict {
	if c.provider == o.provider {
		return verdict{}
	}
	if of := c.extent.with(o.extent, &n.work); of != nil {
		return verdictOf(of.older[c.part][o.part], o.extent, o.part, other, o.provider)
	}
	return verdict{}
}

func verdictOf(o overlap, theirs *extent, of part, k kind, network string) verdict {
	if o.place == 0 {
		return verdict{}
	}
	return verdict{o.place, meaning{theirs.parts[of][o.least-1].cidr, k, network}}
}
