package alloc_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/alloc"
)

func newRanges(t rapid.TB, cidrs ...string) *alloc.Ranges[string] {
	t.Helper()
	var prefixes []netip.Prefix
	for _, c := range cidrs {
		prefixes = append(prefixes, netip.MustParsePrefix(c))
	}
	r, err := alloc.NewRanges[string](prefixes)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestARangePerFamily(t *testing.T) {
	for _, bad := range [][]string{{"10.9.0.0/24", "10.8.0.0/24"}, {"fd00::/64", "fd01::/64"}, {"fd00::/48"}} {
		var prefixes []netip.Prefix
		for _, c := range bad {
			prefixes = append(prefixes, netip.MustParsePrefix(c))
		}
		if _, err := alloc.NewRanges[string](prefixes); err == nil {
			t.Errorf("%v were accepted", bad)
		}
	}
	r := newRanges(t, "fd09::/112", "10.9.0.0/29")
	if first := r.Pools()[0].Prefix(); !first.Addr().Is4() {
		t.Errorf("the first pool is %s", first)
	}
	v4, v6 := netip.MustParseAddr("10.9.0.5"), netip.MustParseAddr("fd09::5")
	if outcome, _ := r.Take("a", v6); outcome != alloc.Taken {
		t.Fatal(outcome)
	}
	if a, ok := r.Next("a", v4); !ok || a != netip.MustParseAddr("10.9.0.1") {
		t.Errorf("next %v", a)
	}
	if a, _ := r.Next("a", v4); a != netip.MustParseAddr("10.9.0.1") {
		t.Errorf("a second one: %v", a)
	}
	given := r.Held("a")
	if outcome, _ := r.Take("a", v4); outcome != alloc.Taken || !slices.Equal(r.Held("a"), []netip.Addr{v4, v6}) {
		t.Errorf("after it took another: %v", r.Held("a"))
	}
	if !slices.Equal(given, []netip.Addr{netip.MustParseAddr("10.9.0.1"), v6}) {
		t.Errorf("what was given out has changed: %v", given)
	}
	if outcome, other := r.Take("b", v4); outcome != alloc.InUse || other != "a" {
		t.Errorf("another's address: %v %q", outcome, other)
	}
	r.Drop("a", v6)
	if !slices.Equal(r.Held("a"), []netip.Addr{v4}) {
		t.Errorf("after it dropped one: %v", r.Held("a"))
	}
	four := newRanges(t, "10.9.0.0/29")
	if _, ok := four.Next("a", v6); ok {
		t.Error("an address of a family without a range")
	}
	if outcome, _ := four.Take("a", v6); outcome != alloc.Outside {
		t.Error(outcome)
	}
}

// TestRangesAgainstModel: whatever happens, no two owners have one address, an owner has at most one of each family, and
// the pools count what is held.
func TestRangesAgainstModel(t *testing.T) { rapid.Check(t, rangesAgainstModel) }

// FuzzRangesAgainstModel looks for a difference with the fuzzer.
func FuzzRangesAgainstModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(rangesAgainstModel)) }

func rangesAgainstModel(t *rapid.T) {
	r := newRanges(t, "10.9.0.0/29", "fd09::/125")
	// By owner and family, what it holds.
	held := map[string]map[bool]netip.Addr{}
	of := map[netip.Addr]string{}
	drop := func(owner string, v4 bool) {
		delete(of, held[owner][v4])
		delete(held[owner], v4)
	}
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		owner := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"}).Draw(t, "owner")
		if held[owner] == nil {
			held[owner] = map[bool]netip.Addr{}
		}
		like := netip.MustParseAddr(rapid.SampledFrom([]string{"10.9.0.0", "fd09::"}).Draw(t, "family"))
		switch rapid.IntRange(0, 3).Draw(t, "step") {
		case 0:
			wanted := like
			for range rapid.IntRange(0, 8).Draw(t, "offset") {
				wanted = wanted.Next()
			}
			other, taken := of[wanted]
			outcome, by := r.Take(owner, wanted)
			switch {
			case taken && other != owner:
				if outcome != alloc.InUse || by != other {
					t.Fatalf("%s takes %s of %s: %v by %q", owner, wanted, other, outcome, by)
				}
			case outcome == alloc.Taken:
				drop(owner, like.Is4())
				held[owner][like.Is4()], of[wanted] = wanted, owner
			}
		case 1:
			had, has := held[owner][like.Is4()]
			a, ok := r.Next(owner, like)
			switch {
			case has && a != had:
				t.Fatalf("%s has %s and got %s", owner, had, a)
			case ok && !has:
				if other, taken := of[a]; taken {
					t.Fatalf("%s got %s of %s", owner, a, other)
				}
				held[owner][like.Is4()], of[a] = a, owner
			}
		case 2:
			r.Drop(owner, like)
			drop(owner, like.Is4())
		case 3:
			r.Release(owner)
			drop(owner, true)
			drop(owner, false)
		}
		for o, mine := range held {
			if want := slices.SortedFunc(maps.Values(mine), netip.Addr.Compare); !slices.Equal(want, r.Held(o)) {
				t.Fatalf("%s holds %v, want %v", o, r.Held(o), want)
			}
		}
		if used := r.Pools()[0].Used() + r.Pools()[1].Used(); used != int64(len(of)) {
			t.Fatalf("%d are used, want %d", used, len(of))
		}
	}
}
