package ovsdb

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/nb"
)

// TestDifferenceOfSets: what came and what went makes the one set into the other, and is no more than that.
func TestDifferenceOfSets(t *testing.T) {
	for range 2000 {
		had, has := someOf(rand.Perm(8)), someOf(rand.Perm(8))
		came, went := difference(slices.Clone(had), slices.Clone(has))
		set := map[string]bool{}
		for _, e := range had {
			set[e] = true
		}
		for _, e := range went {
			if !set[e] {
				t.Fatalf("%v to %v: %s went and was not there", had, has, e)
			}
			delete(set, e)
		}
		for _, e := range came {
			if set[e] || slices.Contains(had, e) {
				t.Fatalf("%v to %v: %s came and was there", had, has, e)
			}
			set[e] = true
		}
		if got := slices.Sorted(maps.Keys(set)); !slices.Equal(got, slices.Sorted(slices.Values(has))) {
			t.Fatalf("%v to %v: with what came %v and went %v it is %v", had, has, came, went, got)
		}
	}
}

func someOf(numbers []int) []string {
	out := make([]string, rand.IntN(len(numbers)))
	for i := range out {
		out[i] = fmt.Sprint(numbers[i])
	}
	return out
}

func TestSetsAreAsOldAsTheirAge(t *testing.T) {
	ref := nb.Ref{Table: nb.TableLogicalSwitch, UUID: "s"}
	a, b := nb.Member{Set: nb.Set{In: ref, Column: nb.ColumnPorts}, Value: "a"}, nb.Member{Set: nb.Set{In: ref, Column: nb.ColumnPorts}, Value: "b"}
	var row *nb.LogicalSwitch
	s := newSets()
	look := func() [2]bool {
		read := func(nb.Ref) (nb.Row, bool) { return row, row != nil }
		return [2]bool{s.has(a, read), s.has(b, read)}
	}
	for _, step := range []struct {
		what         string
		row          *nb.LogicalSwitch
		before, then [2]bool
	}{
		{"nothing", nil, [2]bool{}, [2]bool{}},
		{"a row that was not there", &nb.LogicalSwitch{UUID: "s", Ports: []string{"a"}}, [2]bool{true, false}, [2]bool{true, false}},
		{"another element", &nb.LogicalSwitch{UUID: "s", Ports: []string{"b"}}, [2]bool{true, false}, [2]bool{false, true}},
		{"no row", nil, [2]bool{false, true}, [2]bool{}},
	} {
		row = step.row
		if got := look(); got != step.before {
			t.Errorf("%s, the same age: %v, want %v", step.what, got, step.before)
		}
		s.renew()
		if got := look(); got != step.then {
			t.Errorf("%s, the next age: %v, want %v", step.what, got, step.then)
		}
	}
	if len(s.known) != 0 {
		t.Errorf("sets of a row that has gone are kept: %v", s.known)
	}
}
