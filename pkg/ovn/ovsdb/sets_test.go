package ovsdb

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
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
	a, b := nb.Member{Set: nb.Set{Row: ref, Column: nb.ColumnPorts}, Value: "a"}, nb.Member{
		Set: nb.Set{Row: ref, Column: nb.ColumnPorts}, Value: "b",
	}
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

// TestChangesOfAMap: a pair whose value has changed has gone, and another one has come.
func TestChangesOfAMap(t *testing.T) {
	set := nb.Set{Row: nb.Ref{Table: nb.TableLoadBalancer, UUID: "l"}, Column: nb.ColumnVips}
	of := func(pairs ...string) *nb.LoadBalancer {
		lb := &nb.LoadBalancer{UUID: "l", Vips: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			lb.Vips[pairs[i]] = pairs[i+1]
		}
		return lb
	}
	for _, test := range []struct {
		what     string
		old, row *nb.LoadBalancer
		want     []string
	}{
		{"a row that comes", nil, of("a", "1"), []string{nb.Pair("a", "1")}},
		{"nothing", of("a", "1"), of("a", "1"), nil},
		{"another value", of("a", "1", "b", "1"), of("a", "2", "b", "1"), []string{nb.Pair("a", "1"), nb.Pair("a", "2")}},
		{"one comes and one goes", of("a", "1"), of("b", "1"), []string{nb.Pair("a", "1"), nb.Pair("b", "1")}},
	} {
		c := newGathering()
		c.whole(nil)
		var old nb.Row
		if test.old != nil {
			old = test.old
		}
		c.note(old, test.row)
		var got []string
		for m := range c.now.Members {
			if m.Set != set {
				t.Errorf("%s: a member of %v", test.what, m.Set)
			}
			got = append(got, m.Value)
		}
		if slices.Sort(got); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.what, got, test.want)
		}
		if _, noted := c.now.Rows[set.Row]; noted != (old == nil) {
			t.Errorf("%s: the row itself is said to differ: %v", test.what, noted)
		}
		s := newSets()
		read := func(nb.Ref) (nb.Row, bool) { return test.row, true }
		for key, value := range test.row.Vips {
			if !s.has(nb.Member{Set: set, Value: nb.Pair(key, value)}, read) {
				t.Errorf("%s: %s = %s is not found", test.what, key, value)
			}
			if s.has(nb.Member{Set: set, Value: nb.Pair(key, "other")}, read) {
				t.Errorf("%s: %s = other is found", test.what, key)
			}
		}
	}
}
