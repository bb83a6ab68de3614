package compatible

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// overlapAsWritten compares all ranges with all, as the words say.
func overlapAsWritten(e *extent, a part, o *extent, b part, older bool) (out overlap) {
	for i, r := range e.parts[a] {
		for j, t := range o.parts[b] {
			if !t.cidr.Overlaps(r.cidr) {
				continue
			}
			if first := t.since.Before(r.since) ||
				t.since.Equal(r.since) && (o.created.Before(e.created) || o.created.Equal(e.created) && o.network < e.network); older && !first {
				continue
			}
			switch {
			case out.place == 0:
				out = overlap{i + 1, j + 1, j + 1}
			case t.cidr.Compare(o.parts[b][out.least-1].cidr) < 0:
				out.least = j + 1
			}
		}
		if out.place != 0 {
			return out
		}
	}
	return out
}

// What two extents have in common is what comparing all their ranges says, in any of the ways in which they may lie in each other.
func TestExtentsOverlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.Custom(func(t *rapid.T) netip.Prefix {
			if rapid.IntRange(0, 3).Draw(t, "v6") == 0 {
				b := [16]byte{0xfd, 15: byte(rapid.IntRange(0, 255).Draw(t, "address"))}
				return netip.PrefixFrom(netip.AddrFrom16(b), rapid.SampledFrom([]int{8, 120, 122, 124, 127, 128}).Draw(t, "bits"))
			}
			b := [4]byte{10, 0, 0, byte(rapid.IntRange(0, 255).Draw(t, "address"))}
			return netip.PrefixFrom(netip.AddrFrom4(b), rapid.SampledFrom([]int{8, 24, 25, 27, 29, 30, 32}).Draw(t, "bits"))
		})
		draw := func(name string) *extent {
			m := &model.Network{Name: name, Type: model.VPC, ServiceCIDRs: rapid.SliceOfN(r, 0, 4).Draw(t, "services")}
			m.Subnets = []model.Subnet{{Name: "a", CIDRs: rapid.SliceOfN(r, 0, 8).Draw(t, "subnets")}}
			m.Created = time.Unix(int64(rapid.IntRange(0, 1).Draw(t, "created")), 0)
			for _, r := range testSettings().ranges(m) {
				if rapid.Bool().Draw(t, "noted") {
					if m.Since == nil {
						m.Since = map[netip.Prefix]time.Time{}
					}
					m.Since[r] = time.Unix(int64(rapid.IntRange(0, 3).Draw(t, "since")), 0)
				}
			}
			return testSettings().extent(m)
		}
		one, other := draw("a"), draw("b")
		var work int
		for _, pair := range [][2]*extent{{one, other}, {other, one}, {one, other}} {
			got, want := pair[0].with(pair[1], &work), overlaps{}
			for a := range parts {
				for b := range parts {
					want.any[a][b] = overlapAsWritten(pair[0], a, pair[1], b, false)
					want.older[a][b] = overlapAsWritten(pair[0], a, pair[1], b, true)
				}
			}
			if got == nil {
				got = &overlaps{}
			}
			if *got != want {
				t.Fatalf("%+v, want %+v", *got, want)
			}
		}
		one.forget()
		if len(one.met)+len(other.met) != 0 {
			t.Fatal("an extent that has gone is remembered")
		}
	})
}

// What a change costs grows with the number of Networks that know each other, and not with its cube: little more than nothing where it is
// not about ranges, else a look at each range of theirs, and one at each pair of them. Of Networks that ask to be joined each pair looks
// at all others.
func TestCostOfAChange(t *testing.T) {
	t.Parallel()
	const count, ranges = 32, 128
	for way, most := range map[string]int{
		"addresses": 2*count*ranges + 8*count*count,
		"Routed":    2*count*ranges + 2*count*count*count,
	} {
		n, all := New(testSettings()), crowd(count, way)
		costs := func(m *model.Network) int {
			before := n.work
			n.Set(m.Name, m)
			return n.work - before
		}
		for _, m := range all {
			costs(m)
		}
		if n.work > count*most {
			t.Errorf("%s: all Networks together cost %d comparisons, want %d at most", way, n.work, count*most)
		}
		m := *all[7]
		m.Egress = model.EgressNone
		if cost := costs(&m); cost > 2*count {
			t.Errorf("%s: a change of egress costs %d comparisons, want %d at most", way, cost, 2*count)
		}
		m.Subnets = m.Subnets[1:]
		if cost := costs(&m); cost > most {
			t.Errorf("%s: a change of ranges costs %d comparisons, want %d at most", way, cost, most)
		}
		if got, want := len(n.Providers(m.Name)), count-1; got != want {
			t.Errorf("%s: it reaches %d, want %d", way, got, want)
		}
	}
}

// Nothing is remembered of Networks that have gone.
func TestNothingIsRememberedOfTheGone(t *testing.T) {
	t.Parallel()
	n := New(testSettings())
	for _, m := range crowd(4, "addresses") {
		n.Set(m.Name, m)
		n.Keep(m.Name, prefixes("10.200.0.0/16"))
	}
	for i := range 3 {
		name := fmt.Sprintf("n%03d", i)
		n.Keep(name, nil)
		n.Set(name, nil)
	}
	if len(n.views) != 0 || len(n.extents) != 1 || len(n.keptExtents) != 1 {
		t.Errorf("%d views, %d extents and %d that are kept are left", len(n.views), len(n.extents), len(n.keptExtents))
	}
	left := []*extent{n.extents["n003"], n.keptExtents["n003"], n.common[0].extent, n.common[1].extent}
	for _, e := range left {
		for o := range e.met {
			if !slices.Contains(left, o) {
				t.Errorf("%q remembers %q", e.network, o.network)
			}
		}
	}
}
