package decide_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// TestEndpointsByUDPThatHaveLeft: what nodes are to forget is in a load balancer of its own for a while, and taken out of it
// when they have long changed their flows. What still serves is in it to its end.
func TestEndpointsByUDPThatHaveLeft(t *testing.T) {
	const one, two, both = "10.0.0.2:8080", "10.0.0.3:8080", "10.0.0.2:8080,10.0.0.3:8080"
	type look struct {
		// after is when, since the endpoints changed.
		after time.Duration
		left  string
	}
	shortly := []look{{0, ""}, {500 * time.Millisecond, one}, {1100 * time.Millisecond, ""}, {2500 * time.Millisecond, one}}
	for _, test := range []struct {
		what           string
		ready, serving [2]bool
		leads          string
		looks          []look
	}{
		{"one is going", [2]bool{false, true}, [2]bool{true, true}, two, append(shortly, look{time.Hour, one})},
		{"one is not ready", [2]bool{false, true}, [2]bool{false, true}, two, append(shortly, look{5 * time.Second, ""})},
		{"both are going", [2]bool{false, false}, [2]bool{true, true}, both, []look{{0, ""}, {time.Hour, ""}}},
		{"none serves", [2]bool{false, false}, [2]bool{false, false}, "", []look{{500 * time.Millisecond, both}, {5 * time.Second, ""}}},
	} {
		t.Run(test.what, func(t *testing.T) {
			w, change := departing(t)
			change([2]bool{true, true}, [2]bool{true, true})
			if got := w.lbs("r", "web"); got["red"]["10.96.0.5:80"] != both || got["red:left"]["10.96.0.5:80"] != "" {
				t.Fatalf("before: %v", got)
			}
			start := time.Unix(1000, 0)
			w.state.Turn(start)
			change(test.ready, test.serving)
			for _, l := range test.looks {
				w.turn(start.Add(l.after))
				got := w.lbs("r", "web")
				if got["red"]["10.96.0.5:80"] != test.leads || got["red:left"]["10.96.0.5:80"] != l.left {
					t.Errorf("after %s: %v, want %s and %s left", l.after, got, test.leads, l.left)
				}
			}
			// When it is over, nothing is remembered, and nobody waits for anything.
			w.turn(start.Add(2 * time.Hour))
			if due, ok := w.state.Due(); ok {
				t.Errorf("something is due at %s", due)
			}
			change(test.ready, [2]bool{test.ready[0], test.ready[1]})
			w.turn(start.Add(3 * time.Hour))
			if left := w.lbs("r", "web")["red:left"]["10.96.0.5:80"]; left != "" {
				t.Errorf("in the end: %s", left)
			}
		})
	}
}

// TestAnEndpointThatComesBack: one that leads again is not forgotten later.
func TestAnEndpointThatComesBack(t *testing.T) {
	w, change := departing(t)
	all := [2]bool{true, true}
	change(all, all)
	start := time.Unix(1000, 0)
	w.state.Turn(start)
	change([2]bool{false, true}, all)
	w.turn(start.Add(500 * time.Millisecond))
	change(all, all)
	if _, ok := w.state.Due(); ok {
		w.turn(start.Add(600 * time.Millisecond))
	}
	if got := w.lbs("r", "web"); got["red"]["10.96.0.5:80"] != "10.0.0.2:8080,10.0.0.3:8080" || got["red:left"]["10.96.0.5:80"] != "" {
		t.Errorf("%v", got)
	}
}

// TestAControllerThatStartsLate: of an endpoint that was going before, it does not know since when, and leaves it where it
// is until it has gone.
func TestAControllerThatStartsLate(t *testing.T) {
	w, change := departing(t)
	change([2]bool{false, true}, [2]bool{true, true})
	w.turn(time.Unix(1000, 0))
	if left := w.lbs("r", "web")["red:left"]["10.96.0.5:80"]; left != "10.0.0.2:8080" {
		t.Errorf("left: %q", left)
	}
	change([2]bool{false, true}, [2]bool{false, true})
	if left := w.lbs("r", "web")["red:left"]["10.96.0.5:80"]; left != "" {
		t.Errorf("when it has gone: %q", left)
	}
}

// TestSlicesThatContradictEachOther: who is ready by one slice and going by another leads, and is not left.
func TestSlicesThatContradictEachOther(t *testing.T) {
	w, change := departing(t)
	change([2]bool{false, true}, [2]bool{true, true})
	other := *w.slices[model.SliceKey{Namespace: "r", Name: "web-1"}]
	other.Key.Name, other.UID, other.Endpoints = "by-hand", "uid-by-hand", slices.Clone(other.Endpoints)
	other.Endpoints[0].Ready = true
	w.setSlice(other)
	w.settle()
	fresh := newWorldOf(withFaces("100.64.0.0/10"))
	maps.Copy(fresh.nodes, w.nodes)
	maps.Copy(fresh.networks, w.networks)
	maps.Copy(fresh.pods, w.pods)
	maps.Copy(fresh.services, w.services)
	maps.Copy(fresh.slices, w.slices)
	fresh.replay(map[string]map[string]string{"r": {model.LabelNetwork: "red"}})
	fresh.settle()
	w.turn(time.Unix(1000, 0))
	for what, w := range map[string]*world{"after history": w, "after a fresh start": fresh} {
		got := w.lbs("r", "web")
		if got["red"]["10.96.0.5:80"] != "10.0.0.2:8080,10.0.0.3:8080" || got["red:left"]["10.96.0.5:80"] != "" {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// departing is servedWorld whose Service also serves by UDP, with pods p and q behind it, and changes whether each of them is
// ready and serves.
func departing(t *testing.T) (*world, func(ready, serving [2]bool)) {
	t.Helper()
	w, _, s := servedWorld(t)
	q := pod("r", "q", "")
	w.setPod(q)
	w.settle()
	both := service("r", "web", "10.96.0.5")
	both.Ports = []model.ServicePort{{Protocol: model.TCP, Port: 80}, {Protocol: model.UDP, Port: 80}}
	w.setService(both)
	s.Ports = append(s.Ports, model.SlicePort{Protocol: model.UDP, Port: 8080})
	return w, func(ready, serving [2]bool) {
		t.Helper()
		s.Endpoints = nil
		for i, name := range []string{"p", "q"} {
			e := endpoint("r", name, w.attachment(model.PodKey{Namespace: "r", Name: name}).Faces[0].String())
			e.Ready, e.Serving = ready[i], serving[i]
			s.Endpoints = append(s.Endpoints, e)
		}
		w.setSlice(s)
		w.settle()
	}
}

// turn moves time on, from one change to the next.
func (w *world) turn(to time.Time) {
	for {
		due, ok := w.state.Due()
		if !ok || due.After(to) {
			break
		}
		w.state.Turn(due)
		w.settle()
	}
	w.state.Turn(to)
	w.settle()
}

// TestAGatewayLeavesEndpointsByUDP: it does as a Service does, and so for what a route that changes leads to no more.
func TestAGatewayLeavesEndpointsByUDP(t *testing.T) {
	w, change := departing(t)
	all := [2]bool{true, true}
	change(all, all)
	w.setClass(model.GatewayClass{Name: "atoll", UID: "class", Generation: 1, Version: "v1.6.3"})
	g := tcpGateway("r", "front")
	g.Listeners = []model.Listener{{
		Name: "udp", Protocol: model.UDP, Asked: "UDP", Port: 1000, Kinds: []model.RouteKind{model.UDPRoute}, From: model.RoutesFromSame,
	}}
	w.setGateway(g)
	r := tcpRoute("r", "web", "front", "web")
	r.Key.Kind = model.UDPRoute
	w.setRoute(r)
	start := time.Unix(1000, 0)
	w.turn(start)
	const vip, one, two = "198.18.0.1:1000", "10.0.0.2:8080", "10.0.0.3:8080"
	want := func(leads, left string) {
		t.Helper()
		got := w.lbsOf(nb.GatewayOwner("r", "front"))
		if got["red"][vip] != leads || got["red:left"][vip] != left {
			t.Errorf("%v, want %s and %s left", got, leads, left)
		}
	}
	want(one+","+two, "")
	change([2]bool{false, true}, all)
	want(two, "")
	w.turn(start.Add(500 * time.Millisecond))
	want(two, one)
	w.turn(start.Add(5 * time.Second))
	want(two, "")
	r.Backends[0].Weight = 0
	w.setRoute(r)
	w.settle()
	want("", "")
	w.turn(start.Add(5500 * time.Millisecond))
	want("", two)
	w.deleteGateway(front)
	w.settle()
	w.turn(start.Add(time.Hour))
	if due, ok := w.state.Due(); ok {
		t.Errorf("something is due at %s", due)
	}
}
