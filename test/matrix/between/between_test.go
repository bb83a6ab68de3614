package between

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

var nodes = []string{"n1", "n2", "n3"}

// settle is what a cluster might give a scene: an address to each pod, the first that is free in its Network, and faces and
// Services' addresses of its own. Networks are made one a second.
func settle(s Scene) World {
	w := World{Policies: s.Policies}
	for i, n := range s.Networks {
		w.Networks = append(w.Networks, Known{Network: n, Created: time.Unix(int64(i), 0)})
		service := Service{Network: n.Name, ClusterIPs: []netip.Addr{random.Nth(netip.MustParseAddr("10.96.0.1"), i)}}
		for _, r := range n.Plan.Services {
			service.Own = append(service.Own, r.Addr().Next())
		}
		w.Services = append(w.Services, service)
	}
	free := map[string]int{}
	for i, p := range s.Pods {
		at := slices.IndexFunc(s.Networks, func(n Network) bool { return n.Name == p.Network })
		placed := Placed{Placed: random.Placed{Pod: p.Pod, UID: p.Name}, App: p.App}
		for _, r := range s.Networks[at].Plan.Subnet {
			face := netip.MustParseAddr("100.64.0.1")
			own := random.Nth(r.Addr(), 40+free[p.Network])
			if r.Addr().Is6() {
				face = netip.MustParseAddr("fd64:a701::1")
			} else if p.Asks.IsValid() {
				own = p.Asks
			}
			placed.Own = append(placed.Own, own)
			placed.Faces = append(placed.Faces, random.Nth(face, i))
		}
		free[p.Network]++
		w.Pods = append(w.Pods, placed)
	}
	return w
}

// A seed says everything, and what it draws is worth asking: edges of both modes, refusals, guests, and an address that pods of
// several Networks have.
func TestDraw(t *testing.T) {
	var edges, joined, addressed, services, refused, guests int
	const seeds = 200
	for seed := range uint64(seeds) {
		s := Draw(seed, nodes)
		if !reflect.DeepEqual(s, Draw(seed, nodes)) || !reflect.DeepEqual(s.Change(seed), Draw(seed, nodes).Change(seed)) {
			t.Fatalf("seed %d does not give the same twice", seed)
		}
		plans := map[string]int{}
		for _, n := range s.Networks {
			plans[n.Plan.Name]++
		}
		if len(plans) != len(Plans()) || len(s.Networks) != networks || len(s.Pods) != pods || len(s.Policies) != policies {
			t.Fatalf("seed %d: %d Networks of plans %v, %d pods", seed, len(s.Networks), plans, len(s.Pods))
		}
		w := settle(s)
		found := Edges(w.Networks)
		edges += len(found)
		addressed += len(Dialled(w.Networks))
		services += len(Ranged(w.Networks))
		for _, with := range found {
			if with {
				joined++
			}
		}
		for _, a := range w.Networks {
			for _, b := range w.Networks {
				_, there := found[Edge{a.Name, b.Name}]
				if asks, _ := a.offers(b); asks && a.Name != b.Name && !there {
					refused++
				}
			}
		}
		for _, p := range s.Pods {
			if p.Guest() {
				guests++
			}
		}
		if len(found) == 0 || maps.Equal(found, Edges(settle(s.Change(seed)).Networks)) {
			t.Errorf("seed %d: %d edges, and the same after the change", seed, len(found))
		}
	}
	addressed -= joined
	t.Logf("of %d scenes: %d edges, %d of them joined, %d by own addresses without that, %d by Services' own, %d refused, %d guests", seeds,
		edges, joined, addressed, services, refused, guests)
	if services < seeds || edges < 10*seeds || joined < 2*seeds || addressed < seeds || refused < 2*seeds || guests < 2*seeds {
		t.Error("that is too few to be worth asking")
	}
}

// networksOf are four: the first two have one another's addresses, the third others, and addresses of Services, as a fourth has.
func networksOf(change func(a, b, c, d *Network)) []Known {
	plans := Plans()
	out := []Known{
		{Network: Network{Name: "a", Plan: plans[0]}, Created: time.Unix(1, 0)},
		{Network: Network{Name: "b", Plan: plans[1]}, Created: time.Unix(2, 0)},
		{Network: Network{Name: "c", Plan: plans[2]}, Created: time.Unix(3, 0)},
		{Network: Network{Name: "d", Plan: plans[2]}, Created: time.Unix(4, 0)},
	}
	change(&out[0].Network, &out[1].Network, &out[2].Network, &out[3].Network)
	return out
}

func TestEdges(t *testing.T) {
	for name, test := range map[string]struct {
		change func(a, b, c, d *Network)
		want   map[Edge]bool
	}{
		"nobody asks": {func(_, _, _, _ *Network) {}, map[Edge]bool{}},
		"one way, and it is not passed on": {func(a, b, _, _ *Network) {
			a.CompatibleWith, b.CompatibleWith = []Peer{{Network: "b"}}, []Peer{{Network: "c"}}
		}, map[Edge]bool{{"a", "b"}: false, {"b", "c"}: false}},
		"another tenant has to use it": {func(a, b, c, _ *Network) {
			a.CompatibleWith = []Peer{{Network: "b"}, {Tenant: "t"}}
			b.Tenant, b.Uses, c.Tenant = "t", []string{"a"}, "t"
		}, map[Edge]bool{{"a", "b"}: false}},
		"all are those of the tenant and who uses it": {func(a, b, c, _ *Network) {
			a.CompatibleWith, a.Tenant, b.Tenant, c.Tenant = []Peer{{All: true}}, "t", "t", "u"
			c.Uses = []string{"a"}
		}, map[Edge]bool{{"a", "b"}: false, {"a", "c"}: false}},
		"joined": {func(a, _, _, _ *Network) { a.CompatibleWith = []Peer{{Network: "c", Routed: true}} }, map[Edge]bool{{"a", "c"}: true}},
		"joined in both directions if one asks": {func(a, _, c, _ *Network) {
			a.CompatibleWith, c.CompatibleWith = []Peer{{Network: "c", Routed: true}}, []Peer{{Network: "a"}}
		}, map[Edge]bool{{"a", "c"}: true, {"c", "a"}: true}},
		"the same addresses cannot be joined": {func(a, b, _, _ *Network) {
			a.CompatibleWith, b.CompatibleWith = []Peer{{Network: "b", Routed: true}}, []Peer{{Network: "a"}}
		}, map[Edge]bool{{"b", "a"}: false}},
		"the older of two that are the same to a third": {func(a, b, _, _ *Network) {
			a.CompatibleWith, b.CompatibleWith = []Peer{{Network: "c", Routed: true}}, []Peer{{Network: "c", Routed: true}}
		}, map[Edge]bool{{"a", "c"}: true}},
		"addresses of Services decide about no edge by face": {func(_, _, c, d *Network) {
			c.CompatibleWith, d.CompatibleWith = []Peer{{Network: "a"}, {Network: "d"}}, []Peer{{Network: "a"}, {Network: "b"}}
		}, map[Edge]bool{{"c", "a"}: false, {"c", "d"}: false, {"d", "a"}: false, {"d", "b"}: false}},
		"addresses of Services that are reached by face": {func(a, _, c, _ *Network) {
			c.CompatibleWith, a.CompatibleWith = []Peer{{Network: "a"}}, []Peer{{Network: "d", Routed: true}}
		}, map[Edge]bool{{"c", "a"}: false}},
	} {
		if got := Edges(networksOf(test.change)); !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestDialled(t *testing.T) {
	world := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	all := []Peer{
		{Network: "a", Addresses: true}, {Network: "b", Addresses: true}, {Network: "c", Addresses: true}, {Network: "d", Addresses: true},
	}
	for name, test := range map[string]struct {
		change func(a, b, c, d *Network)
		want   map[Edge]bool
	}{
		"not offered": {func(a, _, _, _ *Network) { a.CompatibleWith = []Peer{{Network: "c"}} }, map[Edge]bool{}},
		"joined": {
			func(a, _, _, _ *Network) { a.CompatibleWith = []Peer{{Network: "c", Routed: true}} }, map[Edge]bool{{"a", "c"}: true},
		},
		"offered":            {func(a, _, _, _ *Network) { a.CompatibleWith = all }, map[Edge]bool{{"a", "c"}: true, {"a", "d"}: true}},
		"the same addresses": {func(_, b, _, _ *Network) { b.CompatibleWith = all[:1] }, map[Edge]bool{}},
		"the older of two that are the same to a third": {func(a, b, _, _ *Network) {
			a.CompatibleWith, b.CompatibleWith = all[2:3], all[2:]
		}, map[Edge]bool{{"a", "c"}: true, {"b", "d"}: true}},
		"of two the older, though it is not joined": {func(a, b, _, _ *Network) {
			a.CompatibleWith, b.CompatibleWith = all[2:3], []Peer{{Network: "c", Routed: true}}
		}, map[Edge]bool{{"a", "c"}: true}},
		"and a joined one that is older": {func(a, b, _, _ *Network) {
			a.CompatibleWith, b.CompatibleWith = []Peer{{Network: "c", Routed: true}}, all[2:3]
		}, map[Edge]bool{{"a", "c"}: true}},
		"another tenant that only uses it": {func(a, _, c, _ *Network) {
			a.CompatibleWith, c.Tenant, c.Uses = all, "t", []string{"a"}
		}, map[Edge]bool{{"a", "d"}: true}},
		"another tenant that wants it": {func(a, _, c, _ *Network) {
			a.CompatibleWith, c.Tenant, c.UsesAddressesOf = all, "t", []string{"a"}
		}, map[Edge]bool{{"a", "c"}: true, {"a", "d"}: true}},
		"another tenant that wants it, though not what is somebody's in the world": {func(a, _, c, _ *Network) {
			a.CompatibleWith, a.Plan.Subnet, c.Tenant, c.UsesAddressesOf = all, world, "t", []string{"a"}
		}, map[Edge]bool{{"a", "d"}: true, {"a", "b"}: true}},
		"another tenant that names it": {func(a, _, c, _ *Network) {
			a.CompatibleWith, a.Plan.Subnet, c.Tenant, c.UsesAddressesOf, c.UsesServiceCIDRs = all, world, "t", []string{"a"},
				map[string][]netip.Prefix{"a": world}
		}, map[Edge]bool{{"a", "b"}: true, {"a", "c"}: true, {"a", "d"}: true}},
		"joined to another tenant that does not name it": {func(a, _, c, _ *Network) {
			a.CompatibleWith, a.Plan.Subnet = []Peer{{Network: "c", Routed: true}}, world
			c.CompatibleWith, c.Tenant, c.Uses = []Peer{{Network: "a", Routed: true}}, "t", []string{"a"}
		}, map[Edge]bool{}},
		"joined to another tenant that names it": {func(a, _, c, _ *Network) {
			a.CompatibleWith, a.Plan.Subnet = []Peer{{Network: "c", Routed: true}}, world
			c.CompatibleWith, c.Tenant, c.UsesServiceCIDRs = []Peer{{Network: "a", Routed: true}}, "t", map[string][]netip.Prefix{"a": world}
		}, map[Edge]bool{{"a", "c"}: true}},
	} {
		if got := Dialled(networksOf(test.change)); !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestRanged(t *testing.T) {
	named := func(of, r string) map[string][]netip.Prefix {
		return map[string][]netip.Prefix{of: {netip.MustParsePrefix(r)}}
	}
	for name, test := range map[string]struct {
		change func(a, b, c, d *Network)
		// since is when c got its range.
		since int64
		want  map[Edge]bool
	}{
		"of one tenant": {func(_, _, c, _ *Network) { c.CompatibleWith = []Peer{{Network: "a"}} }, 3, map[Edge]bool{{"c", "a"}: true}},
		"joined": {
			func(_, _, c, _ *Network) { c.CompatibleWith = []Peer{{Network: "a", Routed: true}} }, 3, map[Edge]bool{{"c", "a"}: true},
		},
		"joined to another tenant that does not name it": {func(a, _, c, _ *Network) {
			c.CompatibleWith, a.CompatibleWith, a.Tenant, a.Uses = []Peer{{Network: "a", Routed: true}}, []Peer{{Network: "c", Routed: true}}, "t",
				[]string{"c"}
		}, 3, map[Edge]bool{}},
		"joined to another tenant that names it": {func(a, _, c, _ *Network) {
			c.CompatibleWith, a.CompatibleWith, a.Tenant, a.UsesServiceCIDRs = []Peer{{Network: "a", Routed: true}},
				[]Peer{{Network: "c", Routed: true}}, "t", named("c", "10.28.0.0/15")
		}, 3, map[Edge]bool{{"c", "a"}: true}},
		"the same range": {func(_, _, c, _ *Network) { c.CompatibleWith = []Peer{{Network: "d"}} }, 3, map[Edge]bool{}},
		"another tenant that only uses it": {func(a, _, c, _ *Network) {
			c.CompatibleWith, a.Tenant, a.Uses, a.UsesAddressesOf = []Peer{{Network: "a", Addresses: true}}, "t", []string{"c"}, []string{"c"}
		}, 3, map[Edge]bool{}},
		"another tenant that names it": {func(a, _, c, _ *Network) {
			c.CompatibleWith, a.Tenant, a.UsesServiceCIDRs = []Peer{{Network: "a"}}, "t", named("c", "10.28.0.0/15")
		}, 3, map[Edge]bool{{"c", "a"}: true}},
		"another tenant that names a part of it": {func(a, _, c, _ *Network) {
			c.CompatibleWith, a.Tenant, a.UsesServiceCIDRs = []Peer{{Network: "a"}}, "t", named("c", "10.29.0.0/25")
		}, 3, map[Edge]bool{}},
		"the older of two": {func(_, _, c, d *Network) {
			c.CompatibleWith, d.CompatibleWith = []Peer{{Network: "a"}}, []Peer{{Network: "a"}}
		}, 3, map[Edge]bool{{"c", "a"}: true}},
		"the younger Network, that had it first": {func(_, _, c, d *Network) {
			c.CompatibleWith, d.CompatibleWith = []Peer{{Network: "a"}}, []Peer{{Network: "a"}}
		}, 5, map[Edge]bool{{"d", "a"}: true}},
	} {
		known := networksOf(test.change)
		known[2].Since = map[netip.Prefix]time.Time{known[2].Plan.Services[0]: time.Unix(test.since, 0)}
		if got := Ranged(known); !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// stage has one pod in each of a, b and c, and a guest of b in the namespace of a: a serves b by face, and c joined. c serves nobody.
func stage() World {
	w := World{Networks: networksOf(func(a, _, _, _ *Network) { a.CompatibleWith = []Peer{{Network: "b"}, {Network: "c", Routed: true}} })}
	for i, p := range []Pod{
		{random.Pod{Namespace: "a", Name: "a", Network: "a"}, "web"},
		{random.Pod{Namespace: "b", Name: "b", Network: "b"}, "web"},
		{random.Pod{Namespace: "c", Name: "c", Network: "c"}, "db"},
		{random.Pod{Namespace: "a", Name: "guest", Network: "b"}, "web"},
	} {
		own := []string{"10.20.0.16", "10.20.0.16", "10.21.0.16", "10.20.0.17"}[i]
		w.Pods = append(w.Pods, Placed{random.Placed{
			Pod: p.Pod, UID: p.Name, Own: []netip.Addr{netip.MustParseAddr(own)}, Faces: []netip.Addr{
				random.Nth(netip.MustParseAddr("100.64.0.1"), i),
			},
		}, p.App})
	}
	for i, n := range []string{"a", "b", "c"} {
		w.Services = append(w.Services, Service{Network: n, ClusterIPs: []netip.Addr{random.Nth(netip.MustParseAddr("10.96.0.1"), i)}})
	}
	w.Services[2].Own = []netip.Addr{netip.MustParseAddr("10.29.0.1")}
	return w
}

func TestAnswers(t *testing.T) {
	open := stage()
	closed := stage()
	closed.Policies = []Policy{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "from-b"},
		Spec: netv1.NetworkPolicySpec{
			PolicyTypes: []netv1.PolicyType{netv1.PolicyTypeIngress},
			Ingress: []netv1.NetworkPolicyIngressRule{{From: []netv1.NetworkPolicyPeer{{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "b"}},
			}}}},
		},
	}}
	faces, services := []string{"100.64.0.1", "100.64.0.2", "100.64.0.3", "100.64.0.4"}, []string{"10.96.0.1", "10.96.0.2", "10.96.0.3"}
	for _, test := range []struct {
		name     string
		world    World
		from     int
		to, want string
	}{
		{"the own Network's pod of that address", open, 0, "10.20.0.16", "[a] true"},
		{"the same address in another Network", open, 1, "10.20.0.16", "[b] true"},
		{"a provider's face", open, 1, faces[0], "[a] true"},
		{"a consumer's face", open, 0, faces[1], "[] false"},
		{"a joined provider's own address", open, 2, "10.20.0.16", "[a] true"},
		{"a joined provider's face", open, 2, faces[0], "[a] true"},
		{"a joined consumer's own address", open, 0, "10.21.0.16", "[] false"},
		{"an address of a provider of face alone", open, 1, "10.20.0.99", "[] false"},
		{"a third Network's pod, through the provider", open, 2, faces[1], "[] false"},
		{"the own Service has no endpoints in a consumer", open, 0, services[0], "[a] true"},
		{"a provider's Service with endpoints here, too", open, 1, services[0], "[a guest] true"},
		{"a provider's Service with endpoints in another consumer", open, 2, services[0], "[a] true"},
		{"a guest's own face, for the namespace's Network", open, 0, faces[3], "[] false"},
		{"a Service of nobody's", open, 0, services[1], "[] false"},
		{"a Service without endpoints", open, 2, "10.29.0.1", "[] false"},
		{"a policy of the provider's", closed, 2, faces[0], "[] false"},
		{"and whom it admits", closed, 1, faces[0], "[a] true"},
		{"a policy of the provider's, joined", closed, 2, "10.20.0.16", "[] false"},
		{"one of two endpoints", closed, 3, services[0], "[guest] false"},
		{"a policy of its namespace judges a guest in its own Network", closed, 1, faces[3], "[guest] true"},
	} {
		a := test.world.asker()
		got := a.answer(a.Pods[test.from], netip.MustParseAddr(test.to), wire.TCP)
		if text := fmt.Sprintf("%v %t", got.May, got.Sure); text != test.want {
			t.Errorf("%s: %s, want %s", test.name, text, test.want)
		}
	}
}

func TestNames(t *testing.T) {
	w := stage()
	w.Policies = []Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}, Spec: netv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, PolicyTypes: []netv1.PolicyType{netv1.PolicyTypeEgress},
	}}}
	for i, may := range []bool{false, true, true, false} {
		if w.MayLookUp(w.Pods[i]) != may {
			t.Errorf("%s may look names up: %t", w.Pods[i], !may)
		}
	}
	w.Networks[2].CompatibleWith = []Peer{{Network: "d"}, {Network: "a"}}
	w.Networks[3].Plan = w.Networks[0].Plan
	w.Services[2].ClusterIPs = append(w.Services[2].ClusterIPs, netip.MustParseAddr("fd96::3"))
	got := fmt.Sprint(w.Names())
	want := "map[" +
		"a:map[a:[10.96.0.1] b:[] c:[10.29.0.1 fd96::3]] " +
		"b:map[a:[10.96.0.1] b:[10.96.0.2] c:[]] " +
		"c:map[a:[10.96.0.1] b:[] c:[10.29.0.1 fd96::3]] " +
		"d:map[a:[] b:[] c:[10.29.0.1 fd96::3]]]"
	if got != want {
		t.Errorf("names are %s, want %s", got, want)
	}
	// A Network with pods behind a Service of one that does not serve it knows it by what is the same everywhere.
	w.Networks[0].CompatibleWith = nil
	w.Services[0].Own = []netip.Addr{netip.MustParseAddr("10.28.0.1")}
	if got := w.Names()["b"]["a"]; fmt.Sprint(got) != "[10.96.0.1]" {
		t.Errorf("the name of a guest's Service is %v", got)
	}
}

// seenIn is what is observed where a world is so: whoever may answer first does.
func seenIn(paths []random.Path) []random.Seen {
	out := make([]random.Seen, len(paths))
	for i, p := range paths {
		if len(p.May) > 0 {
			out[i] = random.Seen{Result: wire.Result{Answered: true, Answerer: wire.Identity{UID: p.May[0]}}, Witnesses: p.May[:1]}
		}
	}
	return out
}

// A cluster that keeps another rule than it is asked to is found out: with one edge less or more, without direction, by other
// addresses, without policies.
func TestWrongWorldsAreFound(t *testing.T) {
	found := map[string]int{}
	const seeds = 8
	for seed := range uint64(seeds) {
		w := settle(Draw(seed, nodes))
		paths := w.Paths()
		if across := w.Across(paths); len(across) < 2 || across[random.ByFace] == 0 {
			t.Errorf("seed %d: paths that lead into other Networks: %v", seed, across)
		} else {
			t.Logf("seed %d: paths that lead into other Networks: %v of %d", seed, across, len(paths))
		}
		if wrong, _ := random.Verdict(w.Placed(), paths, seenIn(paths)); len(wrong) > 0 {
			t.Fatalf("seed %d: what is as it must be is wrong: %q", seed, wrong)
		}
		for name, mutate := range map[string]func(a *asker, e Edge){
			"one edge less": func(a *asker, e Edge) {
				delete(a.routed, e)
				delete(a.dialled, e)
				delete(a.ranged, e)
			},
			"without direction":  func(a *asker, e Edge) { a.routed[Edge{e.Consumer, e.Provider}] = a.routed[e] },
			"by other addresses": func(a *asker, e Edge) { a.dialled[e] = !a.dialled[e] },
			"Services of whoever is reached, by addresses that he gave them": func(a *asker, _ Edge) {
				for e := range a.routed {
					a.ranged[e] = true
				}
			},
			"without policies": func(a *asker, _ Edge) { a.rules.Policies = nil },
			"passed on": func(a *asker, e Edge) {
				for next := range maps.Clone(a.routed) {
					if next.Consumer == e.Provider && next.Provider != e.Consumer {
						a.routed[Edge{next.Provider, e.Consumer}] = false
					}
				}
			},
		} {
			a := w.asker()
			edges := slices.SortedFunc(maps.Keys(a.routed), func(x, y Edge) int {
				return slices.Compare([]string{x.Provider, x.Consumer}, []string{y.Provider, y.Consumer})
			})
			mutate(&a, edges[0])
			a.rules.Compatible = a.compatible()
			if wrong, _ := random.Verdict(w.Placed(), paths, seenIn(a.paths())); len(wrong) > 0 {
				found[name]++
			}
		}
	}
	t.Logf("found, of %d scenes: %v", seeds, found)
	for name, count := range found {
		if count < seeds/4 {
			t.Errorf("%s: found in %d of %d scenes", name, count, seeds)
		}
	}
	if len(found) != 6 {
		t.Errorf("found only %v", found)
	}
}
