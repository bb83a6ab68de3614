package services_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/drain"
	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/controller/decide/services"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
)

// world is a cluster with Network red, of which namespace r is, and the stage that looks at it.
type world struct {
	*services.Stage
	services.World
	order    *pass.Order
	networks map[string]services.Network
	pods     map[model.PodKey]services.Pod
	compiled []string
}

func (w *world) Network(name string) services.Network {
	n := w.networks[name]
	n.Name, n.Space = name, name
	return n
}

func (*world) Asking(model.ServiceKey) map[string]struct{} { return nil }

func (w *world) MeansInfrastructure(netip.Addr) bool { return false }

func (w *world) Pod(key model.PodKey) (services.Pod, bool) {
	p, known := w.pods[key]
	return p, known
}

func (w *world) WithFace(netip.Addr) (model.PodKey, bool) { return model.PodKey{}, false }
func (w *world) MayBeFace(netip.Addr) bool                { return false }

// nobody is told.
type nobody struct{}

func (nobody) WriteServiceAddresses(model.ServiceKey, string, *model.ServiceAddresses) {}
func (nobody) WriteMirrors(map[model.ServiceKey][]model.Mirror)                        {}
func (nobody) Event(model.ObjectRef, model.Problem)                                    {}

func newWorld() *world {
	order := pass.NewOrder("cluster", "claims", "grants", "services")
	first, stage := order.Stage("cluster"), order.Stage("services")
	w := &world{order: order, networks: map[string]services.Network{}, pods: map[model.PodKey]services.Pod{}}
	c := cluster.New(cluster.Settings{Network: "default"}, first)
	g := graph.New()
	w.World = services.World{
		Graph:   g,
		Cluster: c, Quotas: ledger.NewQuotas[model.ServiceKey]("services", c, func(t *model.Tenant) model.Quota { return t.Services }, first),
		Catalog: cluster.NewCatalog(first),
		Virtual: ledger.NewVirtual(ledger.Shared{}, first, order.Stage("grants")), Balancers: drain.NewBalancers(g, first), Networks: w, Pods: w,
		NetworkChanged: pass.NewTopic[string](first), PodChanged: pass.NewTopic[model.PodKey](first),
		FaceGiven: pass.NewTopic[netip.Addr](first), InfrastructureChanged: pass.NewTopic[struct{}](first),
	}
	w.Stage = services.New(w.World, nobody{}, order.Stage("claims"), stage)
	w.Compiled.Follow(stage, func(key model.ServiceKey) { w.compiled = append(w.compiled, key.Name) })
	w.networks["red"] = services.Network{
		Model: &model.Network{Name: "red", UID: "uid", Type: model.VPC, Tenant: "somebody"}, Serves: true,
		Layout: compile.Layout{Name: "red", UID: "uid"},
	}
	return w
}

// pass tells what changes, and wants these Services to be compiled.
func (w *world) pass(t *testing.T, when string, change func(), want ...string) {
	t.Helper()
	w.compiled = nil
	w.order.Run(map[string]func(){"cluster": change, "claims": w.Claim, "grants": w.Virtual.Settle, "services": w.Compile})
	slices.Sort(w.compiled)
	if diff := cmp.Diff(want, w.compiled); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
	if mistakes := w.order.Mistakes(); len(mistakes) > 0 {
		t.Error(mistakes)
	}
}

func TestAServiceIsLookedAtForWhatItLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld()
	pod := model.PodKey{Namespace: "r", Name: "one"}
	own, face, node := netip.MustParsePrefix("10.0.0.2/24"), netip.MustParseAddr("100.64.0.1"), netip.MustParseAddr("192.0.2.1")
	service := func(name string, endpoints ...model.Endpoint) {
		key := model.ServiceKey{Namespace: "r", Name: name}
		slice := model.SliceKey{Namespace: "r", Name: name}
		ports := []model.ServicePort{{Protocol: model.TCP, Port: 80}}
		w.Catalog.Take(
			map[model.ServiceKey]*model.Service{
				key: {Key: key, UID: name, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Ports: ports},
			},
			map[model.SliceKey]*model.Slice{slice: {
				Key: slice, Service: name, Endpoints: endpoints, Ports: []model.SlicePort{{Protocol: model.TCP, Port: 8080}},
			}},
		)
	}
	w.pass(t, "they come", func() {
		w.Cluster.TakeNamespaces(map[string]*model.Namespace{"r": {Name: "r", Labels: map[string]string{model.LabelNetwork: "red"}}})
		service("web", model.Endpoint{Address: face, Pod: pod, Ready: true})
		service("host", model.Endpoint{Address: node, Pod: model.PodKey{Namespace: "r", Name: "agent"}, Ready: true})
	}, "host", "web")
	w.pass(t, "nothing happens", func() {})
	w.pass(t, "the pod gets its port", func() {
		w.pods[pod] = services.Pod{UID: "p", Network: "red", Attachment: &model.Attachment{Network: "red", Addresses: []netip.Prefix{own}}}
		w.PodChanged.Changed(pod)
		w.PodChanged.Changed(model.PodKey{Namespace: "r", Name: "another"})
	}, "web")
	web := w.Catalog.Service(model.ServiceKey{Namespace: "r", Name: "web"})
	// A namespace that the Network does not admit reaches nobody there.
	if got := w.Endpoints(web, 0, "red"); len(got) != 0 {
		t.Errorf("a namespace that may not use red is led to %v", got)
	}
	w.pass(t, "the Network admits the namespace", func() {
		red := w.networks["red"]
		red.Model = &model.Network{Name: "red", UID: "uid", Type: model.VPC}
		w.networks["red"] = red
		w.NetworkChanged.Changed("red")
	}, "host", "web")
	if diff := cmp.Diff("[10.0.0.2:8080]", texts(w.Endpoints(web, 0, "red"))); diff != "" {
		t.Errorf("in the Network it leads to the pod (-want +got):\n%s", diff)
	}
	w.pass(t, "a node has that address", func() {
		w.Cluster.TakeNodes(map[string]*model.Node{"n1": {Name: "n1", Addresses: []netip.Addr{node}}})
	}, "host")
	w.pass(t, "both go", func() {
		for _, name := range []string{"web", "host"} {
			w.Catalog.Take(map[model.ServiceKey]*model.Service{{Namespace: "r", Name: name}: nil},
				map[model.SliceKey]*model.Slice{{Namespace: "r", Name: name}: nil})
		}
	}, "host", "web")
	w.pass(t, "nobody looks any more", func() {
		w.PodChanged.Changed(pod)
		w.NetworkChanged.Changed("red")
	})
}

func texts(list []netip.AddrPort) string {
	out := "["
	for i, a := range list {
		if i > 0 {
			out += " "
		}
		out += a.String()
	}
	return out + "]"
}

// TestWhoIsBeyondTheQuota: when there is room, the next one is looked at, and no other.
func TestWhoIsBeyondTheQuota(t *testing.T) {
	t.Parallel()
	w := newWorld()
	key := func(name string) model.ServiceKey { return model.ServiceKey{Namespace: "r", Name: name} }
	bound := func(hard int64) func() {
		return func() {
			w.Cluster.TakeTenants(map[string]*model.Tenant{"somebody": {Name: "somebody", Services: model.Quota{Bounded: true, Hard: hard}}})
		}
	}
	w.pass(t, "four come", func() {
		bound(2)()
		w.Cluster.TakeNamespaces(map[string]*model.Namespace{
			"r": {Name: "r", Labels: map[string]string{model.LabelNetwork: "red", model.LabelTenant: "somebody"}},
		})
		for age, name := range []string{"one", "two", "three", "four"} {
			w.Catalog.Take(map[model.ServiceKey]*model.Service{key(name): {
				Key: key(name), UID: name, Created: time.Unix(int64(age), 0), ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
			}}, nil)
		}
	}, "four", "one", "three", "two")
	w.pass(t, "the Tenant comes again", bound(2))
	w.pass(t, "one goes", func() { w.Catalog.Take(map[model.ServiceKey]*model.Service{key("one"): nil}, nil) }, "one", "three")
	w.pass(t, "who is beyond it hears of another one", bound(1), "four", "three")
	w.pass(t, "there is room for all", bound(3), "four", "three")
}
