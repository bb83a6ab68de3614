package decide_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

func TestBackendsThatCannotBeUsed(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	w.setNamespace("b", map[string]string{model.LabelNetwork: "red"})
	w.setService(service("b", "web", "10.96.0.9"))
	w.setGateway(tcpGateway("r", "front", "web"))
	backend := func(change func(*model.RouteBackend)) model.Route {
		r := tcpRoute("r", "web", "front", "web")
		change(&r.Backends[0])
		return r
	}
	for name, test := range map[string]struct {
		route model.Route
		want  string
	}{
		"another kind":      {backend(func(b *model.RouteBackend) { b.Kind = "Bucket.example.com" }), "-InvalidKind"},
		"no such Service":   {backend(func(b *model.RouteBackend) { b.Service.Name = "none" }), "-BackendNotFound"},
		"no such port":      {backend(func(b *model.RouteBackend) { b.Port = 81 }), "-BackendNotFound"},
		"no port":           {backend(func(b *model.RouteBackend) { b.Port = 0 }), "-BackendNotFound"},
		"another namespace": {backend(func(b *model.RouteBackend) { b.Service.Namespace = "b" }), "-RefNotPermitted"},
		"another namespace, where there is no such Service": {
			backend(func(b *model.RouteBackend) { b.Service = model.ServiceKey{Namespace: "b", Name: "none"} }), "-RefNotPermitted",
		},
	} {
		w.setRoute(test.route)
		w.wantRoute(t, test.route.Key, map[string]string{"Accepted": "Accepted", "ResolvedRefs": test.want})
		if got := w.listens(front); got["red 198.18.0.1:1000"] != "" {
			t.Errorf("%s: it leads to %v", name, got)
		}
	}
}

func TestAGrantLetsARouteReferToAnotherNamespace(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	w.setNamespace("b", map[string]string{model.LabelNetwork: "red"})
	w.setService(service("b", "web", "10.96.0.9"))
	w.setGateway(tcpGateway("r", "front", "web"))
	r := tcpRoute("r", "web", "front", "web")
	r.Backends[0].Service.Namespace = "b"
	w.setRoute(r)
	refused := map[string]string{"Accepted": "Accepted", "ResolvedRefs": "-RefNotPermitted"}
	w.wantRoute(t, r.Key, refused)
	key := model.GrantKey{Namespace: "b", Name: "g"}
	from := []model.GrantFrom{{Kind: model.TCPRoute, Namespace: "r"}}
	for name, test := range map[string]struct {
		grant model.Grant
		want  map[string]string
	}{
		"for all Services":    {model.Grant{Key: key, From: from, AllServices: true}, attachedAndResolved()},
		"for this Service":    {model.Grant{Key: key, From: from, Services: []string{"web"}}, attachedAndResolved()},
		"for another Service": {model.Grant{Key: key, From: from, Services: []string{"other"}}, refused},
		"for another namespace": {
			model.Grant{Key: key, From: []model.GrantFrom{{Kind: model.TCPRoute, Namespace: "a"}}, AllServices: true}, refused,
		},
		"for another kind": {model.Grant{Key: key, From: []model.GrantFrom{{Kind: model.UDPRoute, Namespace: "r"}}, AllServices: true}, refused},
	} {
		t.Log(name)
		w.setGrant(test.grant)
		w.wantRoute(t, r.Key, test.want)
		w.deleteGrant(key)
		w.wantRoute(t, r.Key, refused)
	}
	elsewhere := model.Grant{Key: model.GrantKey{Namespace: "r", Name: "g"}, From: from, AllServices: true}
	w.setGrant(elsewhere)
	w.wantRoute(t, r.Key, refused)
}

func TestAServiceOfAnotherNetworkHasNoEndpointsHere(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	w.setNetwork(network("blue", "front", "10.0.0.0/24"))
	w.setNamespace("b", map[string]string{model.LabelNetwork: "blue"})
	w.setService(service("b", "web", "10.96.0.9"))
	p := pod("b", "p", "")
	w.setPod(p)
	w.settle()
	s := slice("b", "web-1", "web")
	s.Endpoints = []model.Endpoint{endpoint("b", "p", w.attachment(p.Key).Faces[0].String()), endpoint("b", "", "10.0.0.77")}
	w.setSlice(s)
	w.setGateway(tcpGateway("r", "front", "web"))
	r := tcpRoute("r", "web", "front", "web")
	r.Backends[0].Service.Namespace = "b"
	w.setRoute(r)
	w.setGrant(model.Grant{
		Key: model.GrantKey{Namespace: "b", Name: "g"}, From: []model.GrantFrom{{Kind: model.TCPRoute, Namespace: "r"}}, AllServices: true,
	})
	w.wantRoute(t, r.Key, attachedAndResolved())
	w.wantListens(t, front, map[string]string{"red 198.18.0.1:1000": ""})
}

func TestWeightsAndProtocols(t *testing.T) {
	w, _, _ := gatewayWorld(t)
	web := service("r", "web", "10.96.0.5")
	web.Ports = append(web.Ports, model.ServicePort{Name: "dns", Protocol: model.UDP, Port: 80})
	w.setService(web)
	for i, name := range []string{"x", "y"} {
		w.setService(service("r", name, fmt.Sprintf("10.96.1.%d", i)))
		s := slice("r", name+"-1", name)
		s.Endpoints = []model.Endpoint{endpoint("r", "", fmt.Sprintf("10.0.0.%d", 50+i))}
		w.setSlice(s)
	}
	g := tcpGateway("r", "front", "web")
	g.Listeners = append(g.Listeners, model.Listener{
		Name: "udp", Protocol: model.UDP, Asked: "UDP", Port: 1000, Kinds: []model.RouteKind{model.UDPRoute}, From: model.RoutesFromSame,
	})
	w.setGateway(g)
	r := tcpRoute("r", "web", "front", "web", "x", "y")
	r.Backends[0].Weight, r.Backends[1].Weight, r.Backends[2].Weight = 0, 10, 20
	w.setRoute(r)
	w.settle()
	facts, _ := w.graph.Facts(nb.GatewayOwner("r", "front"))
	var got []string
	for _, m := range facts.Members {
		if m.IsMap() {
			vip, backends := nb.SplitPair(m.Value)
			got = append(got, vip+" "+backends)
		}
	}
	// The UDP listener has no route, and refuses.
	want := []string{"198.18.0.1:1000 10.0.0.50:8080,10.0.0.51:8080,10.0.0.51:8080", "198.18.0.1:1000 "}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
