package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// formers are the backends that are kept for an owner, without their addresses, in order.
func (w *world) formers(owner nb.Owner) []string {
	facts, _ := w.graph.Facts(owner)
	own := map[nb.Ref]bool{}
	for _, row := range facts.Rows {
		own[nb.RefOf(row)] = true
	}
	var out []string
	for _, m := range facts.Members {
		if m.IsMap() && !own[m.Row] {
			_, backends := nb.SplitPair(m.Value)
			out = append(out, backends)
		}
	}
	slices.Sort(out)
	return out
}

// TestFormerGroups: where a virtual address led before is kept for a while, in each Network where that was something of its
// own, and then it is gone.
func TestFormerGroups(t *testing.T) {
	w, change := departing(t)
	all, web := [2]bool{true, true}, nb.ServiceOwner("r", "web")
	start := time.Unix(1000, 0)
	want := func(what string, backends ...string) {
		t.Helper()
		if diff := cmp.Diff(backends, w.formers(web)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	change(all, all)
	w.turn(start)
	want("at first")
	const both, one, two = "10.0.0.2:8080,10.0.0.3:8080", "10.0.0.2:8080", "10.0.0.3:8080"
	const faces = "100.64.0.1:8080,100.64.0.2:8080"
	change([2]bool{false, true}, all)
	want("one is going", both, faces)
	w.turn(start.Add(time.Second))
	change([2]bool{true, false}, all)
	want("the other is going", both, two, faces, "100.64.0.2:8080")
	w.turn(start.Add(2 * time.Second))
	change(all, all)
	want("what is needed again is none", one, two, "100.64.0.1:8080", "100.64.0.2:8080")
	w.turn(start.Add(4500 * time.Millisecond))
	want("the older one is over", one, "100.64.0.1:8080")
	w.turn(start.Add(time.Minute))
	want("in the end")
	if due, ok := w.state.Due(); ok {
		t.Errorf("something is due at %s", due)
	}
	change([2]bool{false, false}, [2]bool{false, false})
	want("nobody is left", both, faces)
	w.deleteService(model.ServiceKey{Namespace: "r", Name: "web"})
	w.settle()
	want("deleted")
	w.turn(start.Add(time.Hour))
	if due, ok := w.state.Due(); ok {
		t.Errorf("deleted: something is due at %s", due)
	}
}

// TestFormerGroupsAreFew: where endpoints change all the time the last ones are kept, and of an address with more endpoints than
// Open vSwitch divides by, none.
func TestFormerGroupsAreFew(t *testing.T) {
	w, _, s := servedWorld(t)
	base := s.Endpoints
	w.state.Turn(time.Unix(1000, 0))
	// Endpoints that are no pods, in the default Network only: the Service's slice is written by hand.
	set := func(n, offset int) {
		t.Helper()
		s.Endpoints = slices.Clone(base)
		for i := range n {
			e := endpoint("r", "", fmt.Sprintf("192.0.%d.%d", 2+(i+offset)/250, (i+offset)%250+1))
			e.Ready, e.Serving = true, true
			s.Endpoints = append(s.Endpoints, e)
		}
		w.setSlice(s)
		w.settle()
	}
	for offset := range 10 {
		set(1, offset)
	}
	got := w.formers(nb.ServiceOwner("r", "web"))
	networks := map[bool]int{}
	for _, backends := range got {
		networks[strings.Contains(backends, "10.0.0.")]++
	}
	if networks[true] != 4 || networks[false] > 4 ||
		!slices.ContainsFunc(got, func(b string) bool { return strings.Contains(b, "192.0.2.9:") }) {
		t.Errorf("kept: %q", got)
	}
	w.turn(time.Unix(2000, 0))
	set(256, 0)
	w.turn(time.Unix(3000, 0))
	set(1, 0)
	if got := w.formers(nb.ServiceOwner("r", "web")); len(got) != 0 {
		t.Errorf("kept of 257 endpoints: %d", len(got))
	}
}
