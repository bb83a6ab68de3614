package decide_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// overServices is a cluster with names and an API at addresses of 10.96.0.0/16.
func overServices() *world {
	settings := withFaces("100.64.0.0/10")
	settings.Services, settings.DNS = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}, model.ServiceKey{
		Namespace: "kube-system", Name: "kube-dns",
	}
	w := newWorldOf(settings)
	home := network("default", "pods", "10.244.0.0/24")
	home.Type = model.Flat
	w.setNetwork(home)
	w.setNode(node("n1", 1))
	for _, ns := range []string{"default", "kube-system", "team"} {
		w.setNamespace(ns, nil)
	}
	w.setService(service("default", "kubernetes", "10.96.0.1"))
	w.setService(service("kube-system", "kube-dns", "10.96.0.10"))
	return w
}

// routes are the prefixes that a Network's router has routes for.
func (w *world) routesOf(name string) []string {
	facts, _ := w.graph.Facts(nb.NetworkOwner(name))
	var out []string
	for _, row := range facts.Rows {
		if r, ok := row.(*nb.StaticRoute); ok {
			out = append(out, r.IPPrefix)
		}
	}
	return out
}

func (w *world) wantAddress(t *testing.T, p model.Pod, want string) {
	t.Helper()
	w.setPod(p)
	w.settle()
	if a := w.attachment(p.Key); a == nil || a.Addresses[0].Addr().String() != want {
		t.Errorf("pod %s has %+v, want %s; Events %+v", p.Key, a, want, w.eventsOf(p.Key.String()))
	}
}

func (w *world) wantProblem(t *testing.T, p model.Pod, reason, says string) {
	t.Helper()
	w.setPod(p)
	w.settle()
	events := w.eventsOf(p.Key.String())
	if a := w.attachment(p.Key); a != nil || len(events) == 0 || events[len(events)-1].Reason != reason ||
		!strings.Contains(events[len(events)-1].Message, says) {
		t.Errorf("pod %s has %+v, Events %+v, want %s: %s", p.Key, a, events, reason, says)
	}
}

// What pods dial in the cluster's range of Services leads to the porthole, and no pod gets an address there, also by its own
// wish.
func TestANetworkAroundTheServices(t *testing.T) {
	w := overServices()
	w.setNetwork(network("red", "a", "10.96.0.0/12"))
	w.wantAddress(t, pod("team", "first", "red"), "10.97.0.1")
	w.wantProblem(t, asking("team", "wish", "red", model.NICRequest{IP: at("10.96.7.7")}), model.ReasonAddressReserved,
		"10.96.0.0/16, the cluster's own range of Services")
	if got, want := w.routesOf("red"), []string{"0.0.0.0/0", "10.96.0.1/32", "10.96.0.10/32"}; !slices.Equal(got, want) {
		t.Errorf("routes %v, want %v", got, want)
	}
	c := w.condition("red", model.ConditionCIDRConflict)
	if want := `10.96.0.0/12 of subnet "a" overlaps 10.96.0.0/16, the cluster's own range of Services: pods get no address there`; !c.Status ||
		!strings.HasPrefix(c.Message, want) {
		t.Errorf("condition %+v, want %q", c, want)
	}
	// The routes follow the Services.
	w.setService(service("kube-system", "kube-dns", "10.96.0.53"))
	w.settle()
	if got, want := w.routesOf("red"), []string{"0.0.0.0/0", "10.96.0.1/32", "10.96.0.53/32"}; !slices.Equal(got, want) {
		t.Errorf("routes %v, want %v", got, want)
	}
	// A Network that has none of it has no such routes.
	w.setNetwork(network("blue", "a", "10.0.0.0/24"))
	w.settle()
	if got := w.routesOf("blue"); !slices.Equal(got, []string{"0.0.0.0/0"}) {
		t.Errorf("routes of blue: %v", got)
	}
}

// In a subnet that lies in that range as a whole pods get what no Service has, and keep it when one gets the same later.
func TestANetworkWithinTheServices(t *testing.T) {
	w := overServices()
	w.setService(service("team", "web", "10.96.0.3"))
	w.setNetwork(network("red", "a", "10.96.0.0/28"))
	first := pod("team", "first", "red")
	w.wantAddress(t, first, "10.96.0.4")
	if g := w.attachment(first.Key).Gateways[0]; g != at("10.96.0.2") {
		t.Errorf("the gateway is %s; 10.96.0.1 is the API's", g)
	}
	w.wantProblem(t, asking("team", "dns", "red", model.NICRequest{IP: at("10.96.0.10")}), model.ReasonAddressInUse,
		"a Service of the cluster")
	wish := asking("team", "wish", "red", model.NICRequest{IP: at("10.96.0.3")})
	w.wantProblem(t, wish, model.ReasonAddressInUse, "a Service of the cluster")
	w.setService(service("team", "late", "10.96.0.4"))
	w.settle()
	w.wantAddress(t, first, "10.96.0.4")
	// Who waits for an address gets it once the Service has gone.
	w.deleteService(model.ServiceKey{Namespace: "team", Name: "web"})
	w.wantAddress(t, wish, "10.96.0.3")
	c := w.condition("red", model.ConditionCIDRConflict)
	if want := "pods get only addresses that no Service has"; !strings.Contains(c.Message, want) {
		t.Errorf("condition %+v, want %q", c, want)
	}
}

// An owner who gives the API's address to the gateway is told.
func TestAGatewayWithTheAddressOfTheAPI(t *testing.T) {
	w := overServices()
	n := network("red", "a", "10.96.0.0/16")
	n.Subnets[0].Gateways = []netip.Addr{at("10.96.0.1")}
	w.setNetwork(n)
	w.settle()
	if got, want := w.routesOf("red"), []string{"0.0.0.0/0", "10.96.0.10/32"}; !slices.Equal(got, want) {
		t.Errorf("routes %v, want %v", got, want)
	}
	c := w.condition("red", model.ConditionCIDRConflict)
	if want := `the gateway of subnet "a" is 10.96.0.1, the address of Service default/kubernetes: pods cannot dial that`; !strings.Contains(
		c.Message, want) {
		t.Errorf("condition %+v, want %q", c, want)
	}
}

// The message of a Network that overlaps everything stays short.
func TestConflictsAreBounded(t *testing.T) {
	w := overServices()
	n := node("n2", 2)
	n.Addresses = []netip.Addr{at("10.11.0.2"), at("10.11.0.3")}
	w.setNode(n)
	big := network("red", "a", "10.0.0.0/8", "b", "100.64.0.0/10")
	w.setNetwork(big)
	w.settle()
	c := w.condition("red", model.ConditionCIDRConflict)
	if !strings.Contains(c.Message, "; and 1 more") || len(c.Message) > 700 {
		t.Errorf("%d bytes: %s", len(c.Message), c.Message)
	}
}

// The doors of a Network of IPv6 alone are at addresses of IPv6, and its Services are told to have one.
func TestANetworkOfIPv6Alone(t *testing.T) {
	w := overServices()
	w.setNetwork(network("six", "a", "fd00:6::/64"))
	w.setNamespace("s", map[string]string{model.LabelNetwork: "six"})
	w.setService(service("s", "four", "10.96.0.80"))
	own := service("s", "six", "10.96.0.81")
	own.ClusterIPs = []netip.Addr{at("fd00:96::81")}
	w.setService(own)
	w.settle()
	if got := w.serviceReasons("s", "four"); !slices.Equal(got, []string{model.ReasonNoIPv6}) {
		t.Errorf("Events of the Service without IPv6: %v", got)
	}
	if got := w.serviceReasons("s", "six"); len(got) > 0 {
		t.Errorf("Events of the Service with IPv6: %v", got)
	}
}
