package decide_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// vanished are the pairs that an owner has in the load balancer of endpoints that have vanished.
func (w *world) vanished(t *testing.T, owner nb.Owner) map[string]string {
	t.Helper()
	home, _ := w.graph.Facts(nb.NetworkOwner("default"))
	var ref nb.Ref
	for _, row := range home.Rows {
		if lb, ok := row.(*nb.LoadBalancer); ok && lb.Name == "default:vanished" {
			ref = nb.RefOf(row)
		}
	}
	if ref.UUID == "" {
		t.Fatal("the default Network has no load balancer of endpoints that have vanished")
	}
	out := map[string]string{}
	facts, _ := w.graph.Facts(owner)
	for _, m := range facts.Members {
		if m.Row == ref {
			vip, backends := nb.SplitPair(m.Value)
			out[vip] = backends
		}
	}
	return out
}

// TestEndpointsByTCPThatHaveVanished: nodes forget connections to a pod that is deleted by force, by its own address and by its
// face; not those to a pod that leaves or ends, and nothing by an address that may be somebody else's in another Network.
func TestEndpointsByTCPThatHaveVanished(t *testing.T) {
	w, change := departing(t)
	red := *w.networks["red"]
	red.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.50.0.0/24")}
	w.setNetwork(red)
	p, q, all := model.PodKey{Namespace: "r", Name: "p"}, model.PodKey{Namespace: "r", Name: "q"}, [2]bool{true, true}
	key := model.SliceKey{Namespace: "r", Name: "web-1"}
	want := func(what string, pairs map[string]string) {
		t.Helper()
		w.settle()
		if diff := cmp.Diff(pairs, w.vanished(t, nb.ServiceOwner("r", "web"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	without := func(first int) {
		t.Helper()
		s := *w.slices[key]
		s.Endpoints = s.Endpoints[first:]
		w.setSlice(s)
	}
	start := time.Unix(1000, 0)
	w.state.Turn(start)
	change(all, all)
	if _, has := w.lbs("r", "web")["red"]["10.50.0.1:80"]; !has {
		t.Fatalf("the Service has no address of its Network's: %v", w.lbs("r", "web"))
	}
	want("at first", map[string]string{})
	change([2]bool{false, true}, [2]bool{false, true})
	without(1)
	want("one leaves", map[string]string{})
	w.deletePod(p)
	gone := map[string]string{"10.96.0.5:80": "10.0.0.2:8080,100.64.0.1:8080"}
	want("it vanishes", gone)
	w.turn(start.Add(1500 * time.Millisecond))
	want("nodes forget it", map[string]string{})
	w.turn(start.Add(3500 * time.Millisecond))
	want("nodes that are late", gone)
	w.turn(start.Add(time.Minute))
	want("in the end", map[string]string{})

	w.deletePod(q)
	want("another one, which its slice still has", map[string]string{"10.96.0.5:80": "10.0.0.3:8080,100.64.0.2:8080"})
	w.turn(start.Add(2 * time.Minute))
	w.setPod(pod("r", "p", ""))
	w.setPod(pod("r", "q", ""))
	w.settle()
	change(all, all)
	change([2]bool{false, true}, all)
	without(1)
	w.deletePod(p)
	want("one that ended", map[string]string{})
	w.deleteSlice(key)
	w.deletePod(q)
	w.settle()
	w.deleteService(model.ServiceKey{Namespace: "r", Name: "web"})
	want("of a Service that is deleted", map[string]string{})
	w.turn(start.Add(time.Hour))
	if due, ok := w.state.Due(); ok {
		t.Errorf("something is due at %s", due)
	}
}
