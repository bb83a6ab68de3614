package drain_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/controller/decide/drain"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
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
func (v vanishing) look(owner nb.Owner, tenant string, now ...drain.Backend) []string {
	has := map[drain.Backend]bool{}
	for _, b := range now {
		has[b] = false
	}
	return v.names(owner, tenant, has)
}

func (v vanishing) names(owner nb.Owner, tenant string, has map[drain.Backend]bool) []string {
	var out []string
	for _, b := range v.Vanish(owner, tenant, has, func(b drain.Backend) bool { return v.there[b] }) {
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
	v.look(web, "r", backend("p", 1), backend("q", 2))
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
		if diff := cmp.Diff(l.want, v.look(web, "r", backend("q", 2))); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", l.after, diff)
		}
		if next := v.Next(); l.next > 0 && !next.Equal(begin.Add(l.next)) || l.next == 0 && !next.IsZero() {
			t.Errorf("after %s something is over at %s", l.after, next)
		}
	}
}

// TestConnectionsThatNodesKeep: a pod that left the Service keeps its connections while it exists. A pod that was seen to end
// has closed its connections itself. Nodes do not forget connections to an address that another pod of the Service has now.
func TestConnectionsThatNodesKeep(t *testing.T) {
	t.Parallel()
	v, p := newVanishing(), backend("p", 1)
	v.look(web, "r", p)
	v.there[p] = true
	for range 2 {
		if list := v.look(web, "r"); len(list) > 0 {
			t.Errorf("%v has only left", list)
		}
	}
	v.there[p] = false
	if list := v.look(web, "r"); len(list) != 1 {
		t.Errorf("%v: it has vanished after it left", list)
	}
	if list := v.look(web, "r", backend("new", 1)); len(list) > 0 {
		t.Errorf("%v: its address is another pod's", list)
	}

	v = newVanishing()
	v.look(web, "r", p)
	v.names(web, "r", map[drain.Backend]bool{p: true})
	v.look(web, "r", p)
	if list := v.look(web, "r"); len(list) > 0 {
		t.Errorf("%v was seen to end", list)
	}
	if !v.Next().IsZero() {
		t.Error("something is to be over of a pod that ended")
	}
}

// TestManyPodsThatVanish: nodes forget so many at a time, of a tenant and of all; the last places are for tenants that have none.
// Others wait for room, and those of an owner that is deleted leave some.
func TestManyPodsThatVanish(t *testing.T) {
	t.Parallel()
	v := newVanishing()
	var many []drain.Backend
	for i := range 50 {
		many = append(many, backend(fmt.Sprint(i), i))
	}
	owners := []nb.Owner{web, other, nb.ServiceOwner("s", "a"), nb.ServiceOwner("t", "a"), nb.ServiceOwner("u", "a")}
	tenants := []string{"r", "r", "s", "t", "u"}
	at := func(i int, now ...drain.Backend) int { return len(v.look(owners[i], tenants[i], now...)) }
	want := func(what string, counts ...int) {
		t.Helper()
		var got []int
		for i := range counts {
			got = append(got, at(i))
		}
		if diff := cmp.Diff(counts, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	for i := range owners {
		at(i, many...)
	}
	// One of "u" has a place, although 32 are taken.
	want("at first", 16, 0, 16, 1, 1)
	want("looked at again", 16, 0, 16, 1, 1)
	v.Turn(begin.Add(2 * time.Second))
	want("nodes forget them, and will once more", 0, 0, 0, 0, 0)
	v.Delete(owners[0])
	v.Turn(begin.Add(3 * time.Second))
	want("the late round, and those that find room", 0, 14, 16, 1, 1)
	for second := 4; !v.Next().IsZero() && second < 600; second++ {
		v.Turn(begin.Add(time.Duration(second) * time.Second))
		all := 0
		for i := range owners {
			n := at(i)
			if all += n; n > 16 {
				t.Errorf("%d of a tenant at a time", n)
			}
		}
		if all > 64 {
			t.Errorf("%d at a time", all)
		}
	}
	if !v.Next().IsZero() {
		t.Error("some wait for ever")
	}
}

// TestPodsThatWaitToBeForgottenAreBounded: whoever deletes pods by force without a pause keeps no list that grows.
func TestPodsThatWaitToBeForgottenAreBounded(t *testing.T) {
	t.Parallel()
	v := newVanishing()
	var many []drain.Backend
	for i := range 1000 {
		many = append(many, backend(fmt.Sprint(i), i))
	}
	v.look(web, "r", many...)
	forgotten := map[string]bool{}
	for second := 0; second == 0 || !v.Next().IsZero() && second < 6000; second++ {
		v.Turn(begin.Add(time.Duration(second) * time.Second))
		for _, name := range v.look(web, "r") {
			forgotten[name] = true
		}
	}
	if want := 16 + 256; len(forgotten) != want {
		t.Errorf("%d were forgotten, want %d", len(forgotten), want)
	}
}
