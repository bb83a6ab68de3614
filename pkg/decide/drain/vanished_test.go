package drain_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/decide/drain"
	"github.com/atoll-net/atoll/pkg/decide/pass"
	"github.com/atoll-net/atoll/pkg/graph"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// vanishing are load balancers at a time, and who of their pods is there.
type vanishing struct {
	*drain.Balancers
	there map[drain.Backend]bool
}

var begin = time.Unix(1000, 0)

func newVanishing() vanishing {
	v := vanishing{drain.NewBalancers(graph.New(), pass.NewOrder("cluster").Stage("cluster")), map[drain.Backend]bool{}}
	v.Turn(begin)
	return v
}

// look says which pods an owner has now, none of them ending, and returns the names of those that nodes are to forget.
func (v vanishing) look(owner nb.Owner, now ...drain.Backend) []string {
	has := map[drain.Backend]bool{}
	for _, b := range now {
		has[b] = false
	}
	return v.names(owner, has)
}

func (v vanishing) names(owner nb.Owner, has map[drain.Backend]bool) []string {
	var out []string
	for _, b := range v.Vanish(owner, has, func(b drain.Backend) bool { return v.there[b] }) {
		out = append(out, b.Pod.Name)
	}
	return out
}

// backend is a pod's, at an address of its own.
func backend(name string, number int) drain.Backend {
	address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(number >> 8), byte(number)}), 8080)
	return drain.Backend{Pod: model.PodKey{Namespace: "r", Name: name}, UID: name, Port: 80, Address: address}
}

var web, other = nb.ServiceOwner("r", "web"), nb.ServiceOwner("r", "other")

// TestAPodThatVanishes: nodes are to forget it a second later, and once more. All is over at full seconds.
func TestAPodThatVanishes(t *testing.T) {
	t.Parallel()
	v := newVanishing()
	v.look(web, backend("p", 1), backend("q", 2))
	v.Turn(begin.Add(300 * time.Millisecond))
	for _, l := range []struct {
		after time.Duration
		want  []string
		next  time.Duration
	}{
		{300 * time.Millisecond, []string{"p"}, 2 * time.Second},
		{1900 * time.Millisecond, []string{"p"}, 2 * time.Second},
		{2 * time.Second, nil, 4 * time.Second},
		{4 * time.Second, []string{"p"}, 6 * time.Second},
		{6 * time.Second, nil, 0},
		{time.Hour, nil, 0},
	} {
		v.Turn(begin.Add(l.after))
		if diff := cmp.Diff(l.want, v.look(web, backend("q", 2))); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", l.after, diff)
		}
		if next := v.Next(); l.next > 0 && !next.Equal(begin.Add(l.next)) || l.next == 0 && !next.IsZero() {
			t.Errorf("after %s something is over at %s", l.after, next)
		}
	}
}

// TestConnectionsThatNodesKeep: a pod that left keeps its connections while it is there; one that was seen to end has told its clients; and what another pod
// has the address of is that one's.
func TestConnectionsThatNodesKeep(t *testing.T) {
	t.Parallel()
	v, p := newVanishing(), backend("p", 1)
	v.look(web, p)
	v.there[p] = true
	for range 2 {
		if list := v.look(web); len(list) > 0 {
			t.Errorf("%v has only left", list)
		}
	}
	v.there[p] = false
	if list := v.look(web); len(list) != 1 {
		t.Errorf("%v: it has vanished after it left", list)
	}
	if list := v.look(web, backend("new", 1)); len(list) > 0 {
		t.Errorf("%v: its address is another pod's", list)
	}

	v = newVanishing()
	v.look(web, p)
	v.names(web, map[drain.Backend]bool{p: true})
	v.look(web, p)
	if list := v.look(web); len(list) > 0 {
		t.Errorf("%v was seen to end", list)
	}
	if !v.Next().IsZero() {
		t.Error("something is to be over of a pod that ended")
	}
}

// TestManyPodsThatVanish: nodes forget so many at a time, of all owners; others wait for room, and those of an owner that is deleted leave some.
func TestManyPodsThatVanish(t *testing.T) {
	t.Parallel()
	v := newVanishing()
	var many []drain.Backend
	for i := range 50 {
		many = append(many, backend(fmt.Sprint(i), i))
	}
	third := nb.ServiceOwner("r", "third")
	want := func(what string, counts ...int) {
		t.Helper()
		var got []int
		for _, owner := range []nb.Owner{web, other, third}[:len(counts)] {
			got = append(got, len(v.look(owner)))
		}
		if diff := cmp.Diff(counts, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	for _, owner := range []nb.Owner{web, other, third} {
		v.look(owner, many...)
	}
	want("at first", 50, 14, 0)
	want("looked at again", 50, 14, 0)
	v.Turn(begin.Add(2 * time.Second))
	want("nodes forget them, and will once more", 0, 0, 0)
	v.Delete(web)
	v.Turn(begin.Add(3 * time.Second))
	want("the late round, and those that find room", 0, 50, 14)
	for second := 4; !v.Next().IsZero() && second < 60; second++ {
		v.Turn(begin.Add(time.Duration(second) * time.Second))
		v.look(other)
		if list := v.look(third); len(list) > 64 {
			t.Errorf("%d at a time", len(list))
		}
	}
	v.Turn(begin.Add(time.Hour))
	if !v.Next().IsZero() {
		t.Error("something is to be over of nobody")
	}
}
