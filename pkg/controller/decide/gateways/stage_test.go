package gateways_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/drain"
	"github.com/atoll-net/atoll/pkg/controller/decide/gateways"
	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// world is a cluster with Networks red and blue, and leaf, which shares red's load balancers, of which namespaces r, b and l are, and
// the stage that looks at it. They have addresses of IPv4 alone.
type world struct {
	*gateways.Stage
	gateways.World
	order *pass.Order
	// unserved Networks have no rows, and why.
	unserved map[string]*model.Problem
	services map[model.ServiceKey]*model.Service
	statuses map[string]model.GatewayStatus
	routes   map[string]model.RouteStatus
	// looked are the Gateways that said something of themselves in a pass.
	looked []string
}

func (w *world) Space(network string) string {
	if network == "leaf" {
		return "red"
	}
	return network
}

func (w *world) Refusal(_ model.Namespace, network string) *model.Problem { return w.unserved[network] }

func (w *world) Layout(network string) compile.Layout {
	subnet := compile.Range{CIDR: netip.MustParsePrefix("10.0.0.0/24")}
	return compile.Layout{Name: network, UID: "uid", Subnets: []compile.SubnetLayout{{Name: "one", Ranges: []compile.Range{subnet}}}}
}

func (w *world) Service(key model.ServiceKey) *model.Service { return w.services[key] }

func (w *world) Endpoints(service *model.Service, port int, _ string) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("10.0.0.9"), service.Ports[port].Port)}
}

func (w *world) Offered(string, []netip.Addr) []netip.Addr { return nil }

func (w *world) Ways(string) []compile.Layout { return nil }

func (w *world) OfferedEndpoints(*model.Service, int, string, compile.Layout) []netip.AddrPort {
	return nil
}

func (w *world) WriteGatewayClassStatus(string, string, model.GatewayClassStatus) {}

func (w *world) WriteGatewayStatus(key model.GatewayKey, _ string, s model.GatewayStatus) {
	w.statuses[key.Name] = s
	w.looked = append(w.looked, key.Name)
}

func (w *world) WriteRouteStatus(key model.RouteKey, _ string, s model.RouteStatus) {
	w.routes[key.Name] = s
}

// newWorld makes a world whose Networks share a range.
func newWorld(t *testing.T, shared string) *world {
	t.Helper()
	order := pass.NewOrder("cluster", "claims", "grants", "services", "gateways")
	first := order.Stage("cluster")
	w := &world{
		order: order, unserved: map[string]*model.Problem{}, services: map[model.ServiceKey]*model.Service{},
		statuses: map[string]model.GatewayStatus{}, routes: map[string]model.RouteStatus{},
	}
	g := graph.New()
	c := cluster.New(cluster.Settings{Network: "default"}, first)
	w.World = gateways.World{
		Cluster: c, Quotas: ledger.NewQuotas[model.GatewayKey]("gateways", c, func(t *model.Tenant) model.Quota { return t.Gateways }, first),
		Networks: w, Services: w,
		Virtual: ledger.NewVirtual(ledger.Shared{Ranges: []netip.Prefix{
			netip.MustParsePrefix(shared), netip.MustParsePrefix("fd00:18::/64"),
		}}, first, order.Stage("grants")),
		Graph: g, Balancers: drain.NewBalancers(g, first), Sink: w,
		NetworkChanged: pass.NewTopic[string](first), ServiceChanged: pass.NewTopic[model.ServiceKey](order.Stage("services")),
	}
	w.Virtual.Ranges.Follow(first, w.NetworkChanged.Changed)
	w.Stage = gateways.New(w.World, order.Stage("claims"), order.Stage("gateways"))
	w.pass(t, "the cluster comes", model.Changes{Classes: map[string]*model.GatewayClass{"atoll": {Name: "atoll", UID: "class"}}}, func() {
		w.Cluster.TakeNamespaces(map[string]*model.Namespace{
			"r": {Name: "r", Labels: map[string]string{model.LabelNetwork: "red"}},
			"b": {Name: "b", Labels: map[string]string{model.LabelNetwork: "blue"}},
			"l": {Name: "l", Labels: map[string]string{model.LabelNetwork: "leaf"}},
		})
		w.Virtual.Serve("red", ledger.Serving{UID: "uid"})
		w.Virtual.Serve("blue", ledger.Serving{UID: "uid"})
	})
	return w
}

// pass takes changes in while others happen, and wants these Gateways to be looked at.
func (w *world) pass(t *testing.T, when string, c model.Changes, change func(), want ...string) {
	t.Helper()
	w.looked = nil
	w.order.Run(map[string]func(){
		"cluster": change,
		"claims":  func() { w.Take(c); w.Claim() },
		"grants":  w.Virtual.Settle, "services": func() {},
		"gateways": func() { w.Compile(); w.Report() },
	})
	slices.Sort(w.looked)
	if diff := cmp.Diff(want, w.looked); diff != "" {
		t.Errorf("%s: these were looked at (-want +got):\n%s", when, diff)
	}
	if mistakes := w.order.Mistakes(); len(mistakes) > 0 {
		t.Error(mistakes)
	}
}

// have wants each of these Gateways to say that it has these addresses, or why not.
func (w *world) have(t *testing.T, when string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name := range want {
		s := w.statuses[name]
		var words []string
		for _, a := range s.Addresses {
			words = append(words, a.String())
		}
		if p := s.Conditions[1]; len(words) == 0 || p.Reason == model.ReasonAddressNotUsable {
			words = append(words, p.Reason)
		}
		got[name] = strings.Join(words, " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// gateway is one of namespace r that listens on TCP port 80 and asks for addresses.
func gateway(name string, age int64, asks ...string) *model.Gateway {
	g := &model.Gateway{
		Key: model.GatewayKey{Namespace: "r", Name: name}, UID: name, Class: "atoll", Created: time.Unix(age, 0), Generation: 1,
		Listeners: []model.Listener{{
			Name: "web", Protocol: model.TCP, Asked: "TCP", Port: 80, Kinds: []model.RouteKind{model.TCPRoute}, From: model.RoutesFromSame,
		}},
	}
	for _, a := range asks {
		g.Addresses = append(g.Addresses, model.GatewayAddress{Addr: netip.MustParseAddr(a)})
	}
	return g
}

func come(all ...*model.Gateway) model.Changes {
	c := model.Changes{Gateways: map[model.GatewayKey]*model.Gateway{}}
	for _, g := range all {
		c.Gateways[g.Key] = g
	}
	return c
}

func gone(name string) model.Changes {
	return model.Changes{Gateways: map[model.GatewayKey]*model.Gateway{{Namespace: "r", Name: name}: nil}}
}

func nothing() {}

func TestOlderGatewaysComeFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "198.18.0.0/30")
	w.pass(t, "three come", come(gateway("old", 1), gateway("middle", 2), gateway("young", 3)), nothing, "middle", "old", "young")
	w.have(t, "two are served", map[string]string{"old": "198.18.0.1", "middle": "198.18.0.2", "young": model.ReasonAddressNotAssigned})
	w.pass(t, "the oldest comes late", come(gateway("oldest", 0)), nothing, "oldest")
	w.have(t, "whoever has an address keeps it", map[string]string{"old": "198.18.0.1", "oldest": model.ReasonAddressNotAssigned})
	w.pass(t, "one goes", gone("old"), nothing, "oldest", "young")
	w.have(t, "the older of those that wait has it", map[string]string{"oldest": "198.18.0.1", "young": model.ReasonAddressNotAssigned})
	w.pass(t, "nothing happens", model.Changes{}, nothing)
	other := gateway("other", 9)
	other.Key.Namespace = "b"
	w.pass(t, "one of another Network", come(other), nothing, "other")
	w.have(t, "each Network has the range for itself", map[string]string{"other": "198.18.0.1"})
}

// What its status says is held before anybody gets a new address, as after a restart.
func TestAGatewayKeepsWhatItsStatusSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "198.18.0.0/30")
	former := gateway("former", 5)
	former.Held = []netip.Addr{netip.MustParseAddr("198.18.0.1")}
	moved := gateway("moved", 6, "198.18.0.2")
	moved.Held = []netip.Addr{netip.MustParseAddr("198.18.0.1")}
	w.pass(t, "they come", come(gateway("old", 1, "198.18.0.1"), former, moved), nothing, "former", "moved", "old")
	w.have(t, "the address", map[string]string{"former": "198.18.0.1", "moved": "198.18.0.2", "old": model.ReasonAddressNotUsable})
	if said := w.statuses["old"].Conditions[1].Message; said != "198.18.0.1 belongs to Gateway/r/former" {
		t.Errorf("its holder is not named: %s", said)
	}
	broken := gateway("former", 5)
	broken.Listeners = nil
	w.pass(t, "it makes no sense", come(broken), nothing, "former", "old")
	w.have(t, "another one gets it", map[string]string{"former": model.ReasonInvalid, "old": "198.18.0.1"})
	w.pass(t, "both change", model.Changes{Gateways: map[model.GatewayKey]*model.Gateway{
		{Namespace: "r", Name: "former"}: gateway("former", 5), {Namespace: "r", Name: "old"}: nil, {Namespace: "r", Name: "new"}: gateway("new",
			2),
	}}, nothing, "former", "new")
	w.have(t, "it has what it had", map[string]string{"former": "198.18.0.1", "new": model.ReasonAddressNotAssigned})
	again := gateway("former", 7, "198.18.0.2")
	again.UID = "another"
	w.pass(t, "another one of its name", come(again), nothing, "former", "new")
	w.have(t, "what it had is free", map[string]string{"former": model.ReasonAddressNotUsable, "new": "198.18.0.1"})
}

// Those that had addresses come before newcomers, and what one of them asks for no more is another's.
func TestGatewaysThatHadAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "198.18.0.0/29")
	held := func(g *model.Gateway, a string) *model.Gateway {
		g.Held = []netip.Addr{netip.MustParseAddr(a)}
		return g
	}
	w.pass(t, "they come", come(
		gateway("newcomer", 1, "198.18.0.6"), held(gateway("elsewhere", 2, "198.18.0.6"), "192.0.2.1"),
		held(gateway("moves", 3, "198.18.0.5"), "198.18.0.3"), held(gateway("stays", 4), "198.18.0.3"),
	), nothing, "elsewhere", "moves", "newcomer", "stays")
	w.have(t, "after a restart", map[string]string{
		"newcomer": model.ReasonAddressNotUsable, "elsewhere": "198.18.0.6", "moves": "198.18.0.5", "stays": "198.18.0.3",
	})
}

func TestAGatewayIsLookedAtForWhatItLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "198.18.0.0/30")
	web := model.ServiceKey{Namespace: "r", Name: "web"}
	route := &model.Route{
		Key: model.RouteKey{Kind: model.TCPRoute, Namespace: "r", Name: "route"}, UID: "route",
		Parents:  []model.ParentRef{{Gateway: model.GatewayKey{Namespace: "r", Name: "front"}, Own: true}},
		Backends: []model.RouteBackend{{Service: web, Port: 8080, Weight: 1}},
	}
	c := come(gateway("front", 1), gateway("back", 2))
	c.Routes = map[model.RouteKey]*model.Route{route.Key: route}
	w.pass(t, "they come", c, nothing, "back", "front")
	resolved := func(want string) {
		t.Helper()
		if got := w.routes["route"].Parents[0].Conditions[1].Reason; got != want {
			t.Errorf("the route's Service: %s, want %s", got, want)
		}
	}
	resolved(model.ReasonBackendNotFound)
	w.services[web] = &model.Service{Key: web, Ports: []model.ServicePort{{Protocol: model.TCP, Port: 8080}}}
	w.pass(t, "the Service comes", model.Changes{}, func() { w.ServiceChanged.Changed(web) }, "front")
	resolved(model.ReasonResolvedRefs)
	if facts, _ := w.Graph.Facts(nb.GatewayOwner("r", "front")); len(facts.Rows) == 0 {
		t.Error("the Gateway has no rows")
	}
	w.pass(t, "the route goes", model.Changes{Routes: map[model.RouteKey]*model.Route{route.Key: nil}}, nothing, "front")
	w.pass(t, "nobody looks at the Service any more", model.Changes{}, func() { w.ServiceChanged.Changed(web) })
	leaf := gateway("leaf", 0)
	leaf.Key.Namespace = "l"
	w.pass(t, "one comes whose Network shares red's load balancers", come(leaf), nothing, "leaf")
	w.pass(t, "that Network changes", model.Changes{}, func() { w.NetworkChanged.Changed("leaf") }, "leaf")
	w.pass(t, "red changes", model.Changes{}, func() { w.NetworkChanged.Changed("red") }, "back", "front", "leaf")
	delete(c.Gateways, model.GatewayKey{Namespace: "r", Name: "back"})
	c.Gateways[leaf.Key] = nil
	w.pass(t, "it goes, and the route comes again", c, nothing, "front")
	w.unserved["red"] = &model.Problem{Reason: model.ReasonNetworkInvalid}
	w.pass(t, "the Network is not served", model.Changes{}, func() { w.NetworkChanged.Changed("red") }, "back", "front")
	w.have(t, "nobody has addresses", map[string]string{"front": model.ReasonNetworkInvalid, "back": model.ReasonNetworkInvalid})
	if _, wanted := w.Graph.Facts(nb.GatewayOwner("r", "front")); wanted {
		t.Error("it has rows in a Network that is not served")
	}
	delete(w.unserved, "red")
	w.pass(t, "it has a range of its own", model.Changes{}, func() {
		w.Virtual.Serve("red", ledger.Serving{UID: "uid", Own: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/29")}})
	}, "back", "front")
	w.have(t, "of which they have addresses", map[string]string{"front": "10.9.0.1", "back": "10.9.0.2"})
	w.pass(t, "the namespace moves", model.Changes{}, func() {
		w.Cluster.TakeNamespaces(map[string]*model.Namespace{"r": {Name: "r", Labels: map[string]string{model.LabelNetwork: "blue"}}})
	}, "back", "front")
	w.have(t, "to another Network", map[string]string{"front": "198.18.0.1", "back": "198.18.0.2"})
	if used := w.Virtual.Pools("red")[0].Used(); used != 0 {
		t.Errorf("they still have %d addresses where they were", used)
	}
	w.Refused(nb.GatewayOwner("r", "front"), model.Problem{Reason: model.ReasonDatabaseRefused})
	w.pass(t, "the database refuses it", model.Changes{}, nothing, "front")
	if got := w.statuses["front"].Conditions[1].Reason; got != model.ReasonDatabaseRefused {
		t.Errorf("it says %s", got)
	}
	w.pass(t, "the class goes", model.Changes{Classes: map[string]*model.GatewayClass{"atoll": nil}}, nothing)
	if _, wanted := w.Graph.Facts(nb.GatewayOwner("r", "front")); wanted || len(w.routes["route"].Parents) != 0 {
		t.Error("a Gateway of nobody's class has rows, or a route hears of it")
	}
	w.pass(t, "it comes again", model.Changes{Classes: map[string]*model.GatewayClass{"atoll": {Name: "atoll", UID: "class"}}}, nothing,
		"back", "front")
	if got := w.statuses["front"].Conditions[1].Reason; got != model.ReasonPending {
		t.Errorf("with a class again it says %s, of rows that nobody has refused", got)
	}
}

// TestWhoIsBeyondTheQuota: age decides, whoever came first; when there is room, the next one is looked at, and no other.
func TestWhoIsBeyondTheQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "198.18.0.0/29")
	bound := func(hard int64) func() {
		return func() {
			w.Cluster.TakeTenants(map[string]*model.Tenant{"somebody": {Name: "somebody", Gateways: model.Quota{Bounded: true, Hard: hard}}})
		}
	}
	other := gateway("other", 0)
	other.Class = "another"
	w.pass(t, "three come, and one of another class", come(gateway("middle", 2), gateway("young", 3), gateway("youngest", 4), other), func() {
		bound(1)()
		labels := map[string]string{model.LabelNetwork: "red", model.LabelTenant: "somebody"}
		w.Cluster.TakeNamespaces(map[string]*model.Namespace{"r": {Name: "r", Labels: labels}})
	}, "middle", "young", "youngest")
	w.have(t, "the oldest is served", map[string]string{
		"middle": "198.18.0.1", "young": model.ReasonQuotaExceeded, "youngest": model.ReasonQuotaExceeded,
	})
	w.pass(t, "the oldest goes", gone("middle"), nothing, "young")
	w.have(t, "the next is served", map[string]string{"young": "198.18.0.2", "youngest": model.ReasonQuotaExceeded})
	w.pass(t, "an older one comes", come(gateway("old", 1)), nothing, "old", "young")
	w.have(t, "the older is served", map[string]string{"old": "198.18.0.3", "young": model.ReasonQuotaExceeded})
	w.pass(t, "the quota is raised", model.Changes{}, bound(2), "young", "youngest")
	w.have(t, "two are served", map[string]string{"old": "198.18.0.3", "young": "198.18.0.2", "youngest": model.ReasonQuotaExceeded})
}
