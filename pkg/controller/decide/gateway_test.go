package decide_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// gatewayWorld is a servedWorld with class atoll, in which Gateways get addresses of 198.18.0.0/29: six of them.
func gatewayWorld(t *testing.T) (*world, model.Pod, model.Slice) {
	t.Helper()
	w, p, s := servedWorld(t)
	w.setClass(model.GatewayClass{Name: "atoll", UID: "class", Generation: 1, Version: "v1.6.3"})
	w.settle()
	return w, p, s
}

var front = model.GatewayKey{Namespace: "r", Name: "front"}

// listens is where the ports of a Gateway lead, and in which Network.
func (w *world) listens(key model.GatewayKey) map[string]string {
	out := map[string]string{}
	for network, vips := range w.lbsOf(nb.GatewayOwner(key.Namespace, key.Name)) {
		for vip, backends := range vips {
			out[network+" "+vip] = backends
		}
	}
	return out
}

func (w *world) wantListens(t *testing.T, key model.GatewayKey, want map[string]string) {
	t.Helper()
	w.settle()
	if diff := cmp.Diff(want, w.listens(key)); diff != "" {
		t.Errorf("Gateway %s (-want +got):\n%s", key, diff)
	}
}

func (w *world) wantGateway(t *testing.T, key model.GatewayKey, want map[string]string) {
	t.Helper()
	w.settle()
	if diff := cmp.Diff(want, said(w.gatewayStatus(key).Conditions)); diff != "" {
		t.Errorf("conditions of Gateway %s (-want +got):\n%s\n%+v", key, diff, w.gatewayStatus(key).Conditions)
	}
}

// wantRoute compares a route's conditions at its first parent.
func (w *world) wantRoute(t *testing.T, key model.RouteKey, want map[string]string) {
	t.Helper()
	w.settle()
	parents := w.routeStatus(key).Parents
	if len(parents) == 0 {
		if len(want) > 0 {
			t.Errorf("no parent says anything about route %s", key.Name)
		}
		return
	}
	if diff := cmp.Diff(want, said(parents[0].Conditions)); diff != "" {
		t.Errorf("conditions of route %s (-want +got):\n%s\n%+v", key.Name, diff, parents[0].Conditions)
	}
}

func served() map[string]string {
	return map[string]string{"Accepted": "Accepted", "Programmed": "Programmed"}
}

func attachedAndResolved() map[string]string {
	return map[string]string{"Accepted": "Accepted", "ResolvedRefs": "ResolvedRefs"}
}

func TestAGatewayListensInTheNetworkOfItsNamespace(t *testing.T) {
	w, p, s := gatewayWorld(t)
	w.setGateway(tcpGateway("r", "front", "web"))
	r := tcpRoute("r", "web", "front", "web")
	w.setRoute(r)
	w.wantListens(t, front, map[string]string{"red 198.18.0.1:1000": "10.0.0.2:8080"})
	w.wantGateway(t, front, served())
	w.wantRoute(t, r.Key, attachedAndResolved())
	status := w.gatewayStatus(front)
	want := []model.ListenerStatus{{Name: "web", Kinds: []model.RouteKind{model.TCPRoute}, Attached: 1}}
	for i := range status.Listeners {
		wantSaid := map[string]string{
			"Accepted": "Accepted", "Conflicted": "-NoConflicts", "Programmed": "Programmed", "ResolvedRefs": "ResolvedRefs",
		}
		if diff := cmp.Diff(wantSaid, said(status.Listeners[i].Conditions)); diff != "" {
			t.Error(diff)
		}
		status.Listeners[i].Conditions = nil
	}
	if diff := cmp.Diff(want, status.Listeners); diff != "" || !slices.Equal(addressTexts(status.Addresses), []string{"198.18.0.1"}) {
		t.Errorf("%s%v", diff, status.Addresses)
	}

	// Endpoints are what the Service's own address would lead to.
	w.deletePod(p.Key)
	refuses := map[string]string{"red 198.18.0.1:1000": ""}
	w.wantListens(t, front, refuses)
	again := pod("r", "p", "")
	w.setPod(again)
	w.settle()
	s.Endpoints[0] = endpoint("r", "p", w.attachment(again.Key).Faces[0].String())
	w.setSlice(s)
	own := w.attachment(again.Key).Addresses[0].Addr().String()
	w.wantListens(t, front, map[string]string{"red 198.18.0.1:1000": own + ":8080"})
	w.deleteSlice(s.Key)
	w.wantListens(t, front, refuses)
	w.setSlice(s)
	w.deleteService(model.ServiceKey{Namespace: "r", Name: "web"})
	w.wantRoute(t, r.Key, map[string]string{"Accepted": "Accepted", "ResolvedRefs": "-BackendNotFound"})
	w.wantListens(t, front, refuses)
	w.setService(service("r", "web", "10.96.0.5"))
	w.wantRoute(t, r.Key, attachedAndResolved())
	w.wantListens(t, front, map[string]string{"red 198.18.0.1:1000": own + ":8080"})
	w.deleteRoute(r.Key)
	w.wantListens(t, front, refuses)
	w.deleteGateway(front)
	w.wantListens(t, front, map[string]string{})
}

func TestTwoNetworksHaveTheSameGatewayAddress(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	w.setNetwork(network("blue", "front", "10.0.0.0/24"))
	w.setNamespace("b", map[string]string{model.LabelNetwork: "blue"})
	w.setGateway(tcpGateway("r", "front", "web"))
	w.setGateway(tcpGateway("b", "front", "web"))
	w.setGateway(tcpGateway("a", "front", "web"))
	w.wantListens(t, front, map[string]string{"red 198.18.0.1:1000": ""})
	w.wantListens(t, model.GatewayKey{Namespace: "b", Name: "front"}, map[string]string{"blue 198.18.0.1:1000": ""})
	w.wantListens(t, model.GatewayKey{Namespace: "a", Name: "front"}, map[string]string{"default 198.18.0.1:1000": ""})
}

func TestAGatewayMovesWithItsNamespace(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	w.setGateway(tcpGateway("r", "front", "web"))
	w.wantListens(t, front, map[string]string{"red 198.18.0.1:1000": ""})
	w.setNamespace("r", map[string]string{model.LabelNetwork: "none"})
	w.wantListens(t, front, map[string]string{})
	w.wantGateway(t, front, map[string]string{"Accepted": "Accepted", "Programmed": "-NetworkNotFound"})
	closed := network("none", "x", "10.9.0.0/24")
	closed.Allowed = &match.Selector{Requirements: []match.Requirement{{Op: match.In}}}
	w.setNetwork(closed)
	w.wantGateway(t, front, map[string]string{"Accepted": "Accepted", "Programmed": "-NetworkNotFound"})
	w.wantListens(t, front, map[string]string{})
	w.setNetwork(network("none", "x", "10.9.0.0/24"))
	w.wantListens(t, front, map[string]string{"none 198.18.0.1:1000": ""})
	w.wantGateway(t, front, served())
	bad := network("none", "x", "127.0.0.0/24")
	w.setNetwork(bad)
	w.wantListens(t, front, map[string]string{})
	w.wantGateway(t, front, map[string]string{"Accepted": "Accepted", "Programmed": "-NetworkInvalid"})
}

func TestOnlyGatewaysOfOurClassesAreServed(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	g := tcpGateway("r", "front", "web")
	g.Class = "others"
	w.setGateway(g)
	r := tcpRoute("r", "web", "front", "web")
	w.setRoute(r)
	w.wantListens(t, front, map[string]string{})
	if s := w.gatewayStatus(front); len(s.Conditions) > 0 {
		t.Errorf("a Gateway of another class was told %+v", s)
	}
	w.wantRoute(t, r.Key, nil)
	g.Class = "atoll"
	w.setGateway(g)
	w.wantRoute(t, r.Key, attachedAndResolved())
	w.setClass(model.GatewayClass{Name: "atoll", UID: "class", Generation: 2, Version: "v1.9.0", Parameters: true})
	w.wantListens(t, front, map[string]string{})
	w.wantRoute(t, r.Key, nil)
	if diff := cmp.Diff(map[string]string{"Accepted": "-InvalidParameters", "SupportedVersion": "-UnsupportedVersion"},
		said(w.shown.classes["atoll"].Conditions)); diff != "" {
		t.Error(diff)
	}
	w.setClass(model.GatewayClass{Name: "atoll", UID: "class", Generation: 3, Version: "v1.6.0"})
	w.wantListens(t, front, map[string]string{"red 198.18.0.1:1000": "10.0.0.2:8080"})
	if diff := cmp.Diff(map[string]string{"Accepted": "Accepted", "SupportedVersion": "SupportedVersion"},
		said(w.shown.classes["atoll"].Conditions)); diff != "" {
		t.Error(diff)
	}
	w.deleteClass("atoll")
	w.wantListens(t, front, map[string]string{})
}

func TestListenersThatCannotBeServed(t *testing.T) {
	http := model.Listener{Name: "http", Asked: "HTTP", Port: 80, From: model.RoutesFromSame}
	tcp := tcpGateway("r", "front", "tcp").Listeners[0]
	udp := model.Listener{Name: "udp", Protocol: model.UDP, Asked: "UDP", Port: 1000, Kinds: []model.RouteKind{model.UDPRoute}}
	twin := tcp
	twin.Name = "twin"
	over := http
	over.Port = 1000
	others := tcp
	others.Others, others.Kinds = true, nil
	accepted := map[string]string{
		"Accepted": "Accepted", "Conflicted": "-NoConflicts", "Programmed": "Programmed", "ResolvedRefs": "ResolvedRefs",
	}
	conflicted := map[string]string{
		"Accepted": "-ProtocolConflict", "Conflicted": "ProtocolConflict", "Programmed": "-Invalid", "ResolvedRefs": "ResolvedRefs",
	}
	unsupported := map[string]string{
		"Accepted": "-UnsupportedProtocol", "Conflicted": "-NoConflicts", "Programmed": "-Invalid", "ResolvedRefs": "ResolvedRefs",
	}
	for name, test := range map[string]struct {
		listeners []model.Listener
		gateway   map[string]string
		said      []map[string]string
		listens   []string
	}{
		"TCP and UDP on one port": {
			[]model.Listener{tcp, udp}, served(), []map[string]string{accepted, accepted}, []string{"red 198.18.0.1:1000"},
		},
		"HTTP alone": {
			[]model.Listener{http},
			map[string]string{"Accepted": "-ListenersNotValid", "Programmed": "-Invalid"},
			[]map[string]string{unsupported},
			nil,
		},
		"HTTP beside TCP": {
			[]model.Listener{http, tcp},
			map[string]string{"Accepted": "ListenersNotValid", "Programmed": "Programmed"},
			[]map[string]string{unsupported, accepted},
			[]string{"red 198.18.0.1:1000"},
		},
		"two on one port": {
			[]model.Listener{tcp, twin},
			map[string]string{"Accepted": "-ListenersNotValid", "Programmed": "-Invalid"},
			[]map[string]string{conflicted, conflicted},
			nil,
		},
		"HTTP on TCP's port": {
			[]model.Listener{tcp, over},
			map[string]string{"Accepted": "-ListenersNotValid", "Programmed": "-Invalid"},
			[]map[string]string{conflicted, conflicted},
			nil,
		},
		"kinds of routes that are not served": {
			[]model.Listener{others},
			served(),
			[]map[string]string{
				{"Accepted": "Accepted", "Conflicted": "-NoConflicts", "Programmed": "Programmed", "ResolvedRefs": "-InvalidRouteKinds"},
			},
			[]string{"red 198.18.0.1:1000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := gatewayWorld(t)
			g := tcpGateway("r", "front")
			g.Listeners = test.listeners
			w.setGateway(g)
			w.wantGateway(t, front, test.gateway)
			for i, l := range w.gatewayStatus(front).Listeners {
				if diff := cmp.Diff(test.said[i], said(l.Conditions)); diff != "" {
					t.Errorf("listener %s (-want +got):\n%s", l.Name, diff)
				}
			}
			if got := slices.Sorted(maps.Keys(w.listens(front))); !slices.Equal(got, test.listens) {
				t.Errorf("listens on %v, want %v", got, test.listens)
			}
		})
	}
}

func TestWhoMayAttachToAListener(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	w.setNamespace("b", map[string]string{model.LabelNetwork: "red", "team": "b"})
	w.setService(service("b", "web", "10.96.0.9"))
	elsewhere := func(section string, port uint16) model.Route {
		r := tcpRoute("b", "web", "front", "web")
		r.Parents[0] = model.ParentRef{Gateway: front, Section: section, Port: port}
		return r
	}
	g := tcpGateway("r", "front", "one", "two")
	team := &match.Selector{Requirements: []match.Requirement{{Key: "team", Op: match.In, Values: []string{"b"}}}}
	for i, test := range []struct {
		from    [2]model.RoutesFrom
		section string
		port    uint16
		want    string
		counts  [2]int32
	}{
		{[2]model.RoutesFrom{model.RoutesFromSame, model.RoutesFromSame}, "", 0, "-NotAllowedByListeners", [2]int32{0, 0}},
		{[2]model.RoutesFrom{model.RoutesFromAll, model.RoutesFromSame}, "", 0, "Accepted", [2]int32{1, 0}},
		{[2]model.RoutesFrom{model.RoutesFromAll, model.RoutesFromAll}, "", 0, "Accepted", [2]int32{1, 1}},
		{[2]model.RoutesFrom{model.RoutesFromAll, model.RoutesFromAll}, "two", 0, "Accepted", [2]int32{0, 1}},
		{[2]model.RoutesFrom{model.RoutesFromAll, model.RoutesFromAll}, "", 1000, "Accepted", [2]int32{1, 0}},
		{[2]model.RoutesFrom{model.RoutesFromAll, model.RoutesFromAll}, "two", 1000, "-NoMatchingParent", [2]int32{0, 0}},
		{[2]model.RoutesFrom{model.RoutesFromAll, model.RoutesFromAll}, "three", 0, "-NoMatchingParent", [2]int32{0, 0}},
		{[2]model.RoutesFrom{model.RoutesFromSelector, model.RoutesFromNone}, "", 0, "Accepted", [2]int32{1, 0}},
		{[2]model.RoutesFrom{model.RoutesFromNone, model.RoutesFromNone}, "one", 0, "-NotAllowedByListeners", [2]int32{0, 0}},
	} {
		g.Generation++
		g.Listeners = slices.Clone(g.Listeners)
		for i := range g.Listeners {
			g.Listeners[i].From, g.Listeners[i].Selector = test.from[i], team
		}
		w.setGateway(g)
		r := elsewhere(test.section, test.port)
		w.setRoute(r)
		w.wantRoute(t, r.Key, map[string]string{"Accepted": test.want, "ResolvedRefs": "ResolvedRefs"})
		for at, l := range w.gatewayStatus(front).Listeners {
			if l.Attached != test.counts[at] {
				t.Errorf("case %d: %d routes at listener %s, want %d", i, l.Attached, l.Name, test.counts[at])
			}
		}
	}
	// A namespace's labels decide each time they change.
	g.Listeners = slices.Clone(g.Listeners)
	g.Listeners[0].From = model.RoutesFromSelector
	w.setGateway(g)
	r := elsewhere("one", 0)
	w.setRoute(r)
	w.wantRoute(t, r.Key, attachedAndResolved())
	w.setNamespace("b", map[string]string{model.LabelNetwork: "red"})
	w.wantRoute(t, r.Key, map[string]string{"Accepted": "-NotAllowedByListeners", "ResolvedRefs": "ResolvedRefs"})
	// A route of another protocol attaches nowhere.
	udp := tcpRoute("r", "udp", "front", "web")
	udp.Key.Kind = model.UDPRoute
	w.setRoute(udp)
	w.wantRoute(t, udp.Key, map[string]string{"Accepted": "-NotAllowedByListeners", "ResolvedRefs": "-BackendNotFound"})
}

// A route of another namespace does not tell which listeners a Gateway has that do not let that namespace in.
func TestListenersAreNotTold(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	w.setNamespace("b", map[string]string{model.LabelNetwork: "red"})
	g := tcpGateway("r", "front", "one", "two")
	told := func(namespace, section string, port uint16) model.Condition {
		r := tcpRoute(namespace, "probe", "front", "web")
		r.Parents[0] = model.ParentRef{Gateway: front, Section: section, Port: port}
		w.setRoute(r)
		w.settle()
		for _, c := range w.routeStatus(r.Key).Parents[0].Conditions {
			if c.Type == model.ConditionAccepted {
				return c
			}
		}
		t.Fatalf("route of %s is told nothing", namespace)
		return model.Condition{}
	}
	for _, first := range []model.RoutesFrom{model.RoutesFromSame, model.RoutesFromAll} {
		g.Generation++
		g.Listeners = slices.Clone(g.Listeners)
		g.Listeners[0].From, g.Listeners[1].From = first, model.RoutesFromSame
		w.setGateway(g)
		closed := told("b", "two", 0)
		for _, other := range []model.Condition{
			told("b", "three", 0), told("b", "two", 9), told("b", "two", g.Listeners[1].Port), told("b", "", 9), told("b", "", g.Listeners[1].Port),
		} {
			if diff := cmp.Diff(closed, other); diff != "" || closed.Reason != model.ReasonNotAllowedByListener {
				t.Errorf("first listener lets in %s: (-there +not there):\n%s", first, diff)
			}
		}
		if c := told("r", "three", 0); c.Reason != model.ReasonNoMatchingParent {
			t.Errorf("the Gateway's own namespace is told %s", c.Reason)
		}
	}
}

func TestTheOldestRouteGetsTheTraffic(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	w.setService(service("r", "other", "10.96.0.7"))
	s := slice("r", "other-1", "other")
	s.Endpoints = []model.Endpoint{endpoint("r", "", "10.0.0.99")}
	w.setSlice(s)
	w.setGateway(tcpGateway("r", "front", "web"))
	older, newer := tcpRoute("r", "z", "front", "web"), tcpRoute("r", "a", "front", "other")
	older.Created, newer.Created = time.Unix(1, 0), time.Unix(2, 0)
	w.setRoute(newer)
	w.wantListens(t, front, map[string]string{"red 198.18.0.1:1000": "10.0.0.99:8080"})
	w.setRoute(older)
	w.wantListens(t, front, map[string]string{"red 198.18.0.1:1000": "10.0.0.2:8080"})
	w.wantRoute(t, newer.Key, attachedAndResolved())
	if got := w.gatewayStatus(front).Listeners[0].Attached; got != 2 {
		t.Errorf("%d routes attached, want 2", got)
	}
	w.deleteRoute(older.Key)
	w.wantListens(t, front, map[string]string{"red 198.18.0.1:1000": "10.0.0.99:8080"})
}

func TestWhatTheDatabaseSaysOfAGateway(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	w.setGateway(tcpGateway("r", "front", "web"))
	w.settle()
	w.state.Refused(nb.GatewayOwner("r", "front"), "no")
	w.wantGateway(t, front, map[string]string{"Accepted": "Accepted", "Programmed": "-DatabaseRefused"})
	w.state.Committed(nb.GatewayOwner("r", "front"))
	w.wantGateway(t, front, served())
	w.state.Disconnected(time.Unix(0, 0))
	w.wantGateway(t, front, map[string]string{"Accepted": "Accepted", "Programmed": "-Pending"})
	w.state.Committed(nb.GatewayOwner("r", "front"))
	w.wantGateway(t, front, served())
}
