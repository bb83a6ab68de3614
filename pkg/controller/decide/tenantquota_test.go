package decide_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// quotaWorld has Tenant acme, whose namespace is shop, at home in Network acme with a service range, which offers its Services to Network
// blue. Three Services lead to a pod there, the first of them the youngest.
func quotaWorld(t *testing.T, services, gateways int64) *world {
	t.Helper()
	w := rangedWorld()
	limited := tenant("acme")
	limited.Services, limited.Gateways = model.Quota{Bounded: true, Hard: services}, model.Quota{Bounded: true, Hard: gateways}
	w.setTenant(limited)
	own := ranged("acme", "10.9.0.0/29")
	own.Tenant, own.CompatibleWith = "acme", []model.CompatiblePeer{{Network: "blue"}}
	w.setNetwork(own)
	blue := ranged("blue", "10.9.8.0/29")
	blue.Subnets = network("blue", "front", "10.1.0.0/24").Subnets
	blue.CompatibleWith, blue.Uses = []model.CompatiblePeer{{Network: "acme"}}, []string{"acme"}
	w.setNetwork(blue)
	w.setNamespace("shop", map[string]string{model.LabelTenant: "acme"})
	p := pod("shop", "p", "")
	w.setPod(p)
	w.settle()
	for i, name := range []string{"a", "b", "c"} {
		w.setService(aged("shop", name, "10.96.0."+string(rune('1'+i)), int64(9-i)))
		s := slice("shop", name+"-1", name)
		s.Endpoints = append(s.Endpoints, endpoint("shop", "p", w.attachment(p.Key).Faces[0].String()))
		w.setSlice(s)
	}
	w.setClass(model.GatewayClass{Name: "atoll", UID: "class", Generation: 1, Version: "v1.6.3"})
	w.settle()
	return w
}

// knownOfShop are the Services of shop that have rows.
func (w *world) knownOfShop() string {
	var out []string
	for _, name := range []string{"a", "b", "c"} {
		if networks := w.lbs("shop", name); len(networks) > 0 {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

func (w *world) changeTenant(change func(*model.Tenant)) {
	changed := *w.tenants.objects["acme"]
	change(&changed)
	w.setTenant(changed)
	w.settle()
}

// TestQuotaOfServices: the oldest are served. Of others there are no rows in any Network, no address and no name, until there is room.
func TestQuotaOfServices(t *testing.T) {
	w := quotaWorld(t, 2, 9)
	if got := w.knownOfShop(); got != "b c" {
		t.Fatalf("served: %s", got)
	}
	if _, offered := w.lbs("shop", "b")["acme:offered"]; !offered {
		t.Errorf("what is served is not offered: %v", w.lbs("shop", "b"))
	}
	want := []model.Problem{{
		Reason:  model.ReasonQuotaExceeded,
		Message: `it is not served: Tenant "acme" may have 2 (spec.quotas.services), and the older come before the younger; delete an older one of their services, or ask for a higher quota`,
	}}
	if diff := cmp.Diff(want, w.eventsOf("service shop/a")); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	key := model.ServiceKey{Namespace: "shop", Name: "a"}
	if diff := cmp.Diff(&model.ServiceAddresses{ServiceUID: "uid-shop-a", Refused: true}, w.services[key].Assigned); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	s := w.tenants.statuses["acme"]
	if diff := cmp.Diff([]model.QuotaStatus{{Resource: "gateways", Hard: 9}, {Resource: "services", Used: 3, Hard: 2}},
		s.Quotas); diff != "" || s.Services != 3 {
		t.Errorf("%d counted (-want +got):\n%s", s.Services, diff)
	}
	// A newcomer takes nothing from anybody.
	w.setService(aged("shop", "d", "10.96.0.9", 10))
	w.settle()
	if got := w.knownOfShop(); got != "b c" || len(w.lbs("shop", "d")) > 0 {
		t.Errorf("served with a newcomer: %s, %v", got, w.lbs("shop", "d"))
	}
	w.deleteService(model.ServiceKey{Namespace: "shop", Name: "b"})
	w.settle()
	if got := w.knownOfShop(); got != "a c" || !strings.HasPrefix(w.own("shop", "a"), "acme: 10.9.0.") {
		t.Errorf("served when there is room: %s; a has %q", got, w.own("shop", "a"))
	}
	w.changeTenant(func(t *model.Tenant) { t.Services.Hard = 0 })
	if got := w.knownOfShop(); got != "" {
		t.Errorf("served with a quota of none: %s", got)
	}
	w.changeTenant(func(t *model.Tenant) { t.Services = model.Quota{} })
	if got := w.knownOfShop(); got != "a c" || len(w.lbs("shop", "d")) == 0 {
		t.Errorf("served without a quota: %s, %v", got, w.lbs("shop", "d"))
	}
	w.changeTenant(func(t *model.Tenant) { t.Services = model.Quota{Bounded: true} })
	w.setNamespace("shop", map[string]string{model.LabelNetwork: "blue"})
	w.settle()
	if got := w.knownOfShop(); got != "a c" {
		t.Errorf("served when the namespace is nobody's: %s", got)
	}
}

// TestARefusedServiceIsNotBehindAGateway: the way around the quota leads nowhere.
func TestARefusedServiceIsNotBehindAGateway(t *testing.T) {
	w := quotaWorld(t, 3, 1)
	w.setGateway(tcpGateway("shop", "g", "web"))
	w.setRoute(tcpRoute("shop", "to-a", "g", "a"))
	w.settle()
	key := model.GatewayKey{Namespace: "shop", Name: "g"}
	leads := func() (out string) {
		for _, backends := range w.listens(key) {
			out += backends
		}
		return out
	}
	if leads() == "" {
		t.Fatalf("the Gateway listens on %v", w.listens(key))
	}
	w.changeTenant(func(t *model.Tenant) { t.Services.Hard = 2 })
	if got := leads(); got != "" {
		t.Errorf("a Gateway leads to a Service that is refused: %s", got)
	}
}

// TestQuotaOfGateways: those of Atoll's classes count, and the oldest are served. A class that comes brings its Gateways.
func TestQuotaOfGateways(t *testing.T) {
	w := quotaWorld(t, 9, 1)
	names := []string{"x", "y", "z"}
	for i, name := range names {
		g := tcpGateway("shop", name, "web")
		g.Created = time.Unix(int64(i), 0)
		if name == "x" {
			g.Class = "another"
		}
		w.setGateway(g)
	}
	w.settle()
	served := func() (out string) {
		for _, name := range names {
			key := model.GatewayKey{Namespace: "shop", Name: name}
			c := w.gatewayStatus(key).Conditions
			at := slices.IndexFunc(c, func(c model.Condition) bool { return c.Type == model.ConditionProgrammed })
			switch {
			case at < 0 || w.gateways[key] == nil || w.classes[w.gateways[key].Class] == nil:
				// Of another's class nothing is said.
			case c[at].Status:
				out += name + " "
			case c[at].Reason != model.ReasonQuotaExceeded || len(w.listens(key)) > 0:
				t.Errorf("%s: %+v, it listens on %v", name, c[at], w.listens(key))
			}
		}
		return out
	}
	if got := served(); got != "y " {
		t.Errorf("served: %s", got)
	}
	if s := w.tenants.statuses["acme"]; s.Gateways != 2 || s.Quotas[0] != (model.QuotaStatus{Resource: "gateways", Used: 2, Hard: 1}) {
		t.Errorf("counted: %+v", s)
	}
	w.setClass(model.GatewayClass{Name: "another", UID: "class-2", Generation: 1, Version: "v1.6.3"})
	w.settle()
	if got := served(); got != "x " {
		t.Errorf("served with another class: %s", got)
	}
	w.deleteClass("another")
	w.settle()
	if got := served(); got != "y " {
		t.Errorf("served when it has gone: %s", got)
	}
	w.deleteGateway(model.GatewayKey{Namespace: "shop", Name: "y"})
	w.settle()
	if got := served(); got != "z " {
		t.Errorf("served when y has gone: %s", got)
	}
	w.changeTenant(func(t *model.Tenant) { t.Gateways.Hard = 0 })
	if got := served(); got != "" {
		t.Errorf("served with a quota of none: %s", got)
	}
	w.endTenant("acme")
	w.settle()
	open := *w.networks["acme"]
	open.Tenant, open.Allowed = "", network("n").Allowed
	w.setNetwork(open)
	w.settle()
	if got := served(); got != "z " {
		t.Errorf("served when the Tenant has gone: %s; %+v", got, w.tenants.objects["acme"])
	}
}
