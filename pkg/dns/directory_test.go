package dns

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestWhatANetworkSees: its own namespaces' Services if they may attach, those with endpoints in it, and the API's.
func TestWhatANetworkSees(t *testing.T) {
	red := vpc("red")
	red.Tenant = "colours"
	w := newWorld(t, red)
	w.SetComplete()
	sees := func(name string) bool {
		t.Helper()
		return w.ask(t, "red", name+".svc.cluster.local.", dns.TypeANY).Rcode == dns.RcodeSuccess
	}
	check := func(name string, want bool) {
		t.Helper()
		if sees(name) != want {
			t.Errorf("red sees %s: %v, want %v", name, !want, want)
		}
	}
	member := &model.Namespace{Name: "a", Labels: map[string]string{model.LabelNetwork: "red", model.LabelTenant: "colours"}}
	w.SetNamespace(member)
	w.SetService(clusterIP("a/web", "10.96.1.1"))
	check("web.a", true)
	// One that names the Network and may not attach.
	w.SetNamespace(namespaceIn("b", "red"))
	w.SetService(clusterIP("b/web", "10.96.1.2"))
	check("web.b", false)
	check("b", false)
	// One that belongs elsewhere and has an endpoint here: that one Service, and for as long as it has.
	admitted := &model.Namespace{Name: "c", Labels: map[string]string{model.LabelTenant: "colours"}}
	w.SetNamespace(admitted)
	w.SetService(clusterIP("c/web", "10.96.1.3"))
	w.SetService(clusterIP("c/other", "10.96.1.4"))
	check("web.c", false)
	w.put("web", slice("c/web", "red", "!10.0.0.1"))
	check("web.c", true)
	check("c", true)
	check("other.c", false)
	// The same, but it may not attach: nobody balances for it here.
	w.SetNamespace(&model.Namespace{Name: "c"})
	check("web.c", false)
	check("c", false)
	w.SetNamespace(admitted)
	check("web.c", true)
	w.put("web", slice("c/web", "red"))
	check("web.c", false)
	check("c", false)
	w.put("web", slice("c/web", "red", "10.0.0.1"))
	check("web.c", true)
	w.RemoveSlice(SliceKey{Namespace: "c", Name: "web"})
	check("web.c", false)
	// The API's, by what the Network says.
	w.SetService(clusterIP("default/kubernetes", "10.96.0.1"))
	w.SetService(clusterIP("default/other", "10.96.0.2"))
	check("kubernetes.default", true)
	check("default", true)
	check("other.default", false)
	none := *red
	none.Infra = model.InfraNone
	w.serve(&none)
	check("kubernetes.default", false)
	check("default", false)
	// Who may attach changes with the Network and with the namespace.
	all := *red
	all.Allowed = &match.Selector{}
	w.serve(&all)
	check("web.b", true)
	w.serve(red)
	check("web.b", false)
	w.SetNamespace(&model.Namespace{Name: "a", Labels: map[string]string{model.LabelTenant: "colours"}})
	check("web.a", false)
	w.SetNamespace(member)
	check("web.a", true)
	w.RemoveService(key("a/web"))
	check("web.a", false)
	check("a", true)
	w.RemoveNamespace("a")
	check("a", false)
}

// TestTheAPIOfANetworkOfIPv6: where the API has no address that its pods can dial, the name is one that they can.
func TestTheAPIOfANetworkOfIPv6(t *testing.T) {
	six := vpc("six")
	six.Subnets = []model.Subnet{{Name: "a", CIDRs: []netip.Prefix{netip.MustParsePrefix("fd00:6::/64")}}}
	w := newWorld(t, six, vpc("red"))
	w.SetComplete()
	w.SetService(clusterIP("default/kubernetes", "10.96.0.1"))
	for network, want := range map[string]string{"six": model.APIAddress6().String(), "red": ""} {
		got := ""
		if m := w.ask(t, network, "kubernetes.default.svc.cluster.local.", dns.TypeAAAA); len(m.Answer) == 1 {
			got = m.Answer[0].(*dns.AAAA).AAAA.String()
		}
		if got != want {
			t.Errorf("in %s it is %q, want %q", network, got, want)
		}
	}
	w.SetService(clusterIP("default/kubernetes", "fd00:96::1"))
	if m := w.ask(t, "six", "kubernetes.default.svc.cluster.local.", dns.TypeAAAA); len(m.Answer) != 1 ||
		m.Answer[0].(*dns.AAAA).AAAA.String() != "fd00:96::1" {
		t.Errorf("an API with IPv6 is %v", m)
	}
}

// TestNamesOfATenantsNamespace: one that names no Network is at home in the one of its tenant's name, if that is the tenant's.
func TestNamesOfATenantsNamespace(t *testing.T) {
	home, taken := vpc("acme"), vpc("other")
	home.Tenant = "acme"
	w := newWorld(t, home, taken, vpc("red"))
	w.SetComplete()
	sees := func(network, name string, want bool) {
		t.Helper()
		if got := w.ask(t, network, name+".svc.cluster.local.", dns.TypeANY).Rcode == dns.RcodeSuccess; got != want {
			t.Errorf("%s sees %s: %v, want %v", network, name, got, want)
		}
	}
	w.SetNamespace(&model.Namespace{Name: "a", Labels: map[string]string{model.LabelTenant: "acme"}})
	w.SetService(clusterIP("a/web", "10.96.1.1"))
	sees("acme", "web.a", true)
	sees("red", "web.a", false)
	w.SetNamespace(&model.Namespace{Name: "a", Labels: map[string]string{model.LabelTenant: "acme", model.LabelNetwork: "red"}})
	sees("acme", "web.a", false)
	sees("red", "web.a", true)
	w.SetNamespace(&model.Namespace{Name: "a", Labels: map[string]string{model.LabelTenant: "other"}})
	sees("other", "web.a", false)
}

// TestAnyHistory: whatever came, changed and went, in whatever order, a Zone ends as one that is made from what is left.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names, networks := []string{"a", "b", "default"}, []string{"red", "blue", "green", ""}
		pick := func(from []string, label string) string { return rapid.SampledFrom(from).Draw(t, label) }
		rangeOf := map[string]string{"red": "10.9.0", "blue": "10.8.0", "green": "10.7.0"}
		drawn := func(name string) *model.Network {
			n := ranged(name, rangeOf[name]+pick([]string{".0/24", ".2/31"}, "range"))
			switch rapid.IntRange(0, 4).Draw(t, "admits") {
			case 0:
				n.Tenant = pick([]string{"other", "blue"}, "tenant")
			case 1, 2:
				admitting(n)
			}
			return n
		}
		d := NewDirectory(domain, nil, testSettings())
		namespaces := map[string]*model.Namespace{}
		services := map[ServiceKey]*Service{}
		slicesLeft := map[SliceKey]*Slice{}
		served, all := map[string]*model.Network{}, map[string]*model.Network{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			service := ServiceKey{Namespace: pick(names, "namespace"), Name: pick([]string{"web", "kubernetes"}, "service")}
			gone := rapid.IntRange(0, 3).Draw(t, "gone") == 0
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				name := service.Namespace
				if gone {
					d.RemoveNamespace(name)
					delete(namespaces, name)
					continue
				}
				namespaces[name] = namespaceIn(name, pick(networks, "network"))
				if rapid.Bool().Draw(t, "a tenant's") {
					// Its home, if it names none, is the Network of the tenant's name.
					namespaces[name].Labels[model.LabelTenant] = "blue"
				}
				d.SetNamespace(namespaces[name])
			case 1:
				if gone {
					d.RemoveService(service)
					delete(services, service)
					continue
				}
				s := &Service{ServiceKey: service, Headless: rapid.Bool().Draw(t, "headless")}
				if !s.Headless {
					s.ClusterIPs = []netip.Addr{addr(fmt.Sprintf("10.96.0.%d", rapid.IntRange(1, 3).Draw(t, "ip")))}
					if of := pick(networks, "own"); of != "" {
						withOwn(s, of, "uid-"+of, fmt.Sprintf("%s.%d", rangeOf[of], rapid.IntRange(1, 3).Draw(t, "own ip")))
					}
				}
				services[service] = s
				d.SetService(s)
			case 2:
				k := SliceKey{Namespace: service.Namespace, Name: pick([]string{"s1", "s2", "s3"}, "slice")}
				if gone {
					d.RemoveSlice(k)
					delete(slicesLeft, k)
					continue
				}
				var endpoints []string
				for range rapid.IntRange(0, 2).Draw(t, "endpoints") {
					text := fmt.Sprintf("10.0.0.%d", rapid.IntRange(1, 3).Draw(t, "address"))
					if rapid.Bool().Draw(t, "faced") {
						text += fmt.Sprintf(">100.64.0.%d", rapid.IntRange(1, 3).Draw(t, "face"))
					}
					endpoints = append(endpoints, text)
				}
				slicesLeft[k] = slice(service.Namespace+"/"+service.Name, pick(networks[:3], "network"), endpoints...)
				d.SetSlice(k, slicesLeft[k])
			case 3:
				name := pick(networks[:3], "network")
				if gone {
					d.Leave(name)
					delete(served, name)
					continue
				}
				n := drawn(name)
				if rapid.Bool().Draw(t, "without API") {
					n.Infra = model.InfraNone
				}
				served[name] = n
				d.Serve(n)
			case 4:
				name := pick(networks[:3], "network")
				if gone {
					d.RemoveNetwork(name, "uid-"+name)
					delete(all, name)
					continue
				}
				all[name] = drawn(name)
				for _, other := range networks[:3] {
					if rapid.Bool().Draw(t, "compatible with "+other) {
						all[name].CompatibleWith = append(all[name].CompatibleWith, model.CompatiblePeer{Network: other})
					}
				}
				d.SetNetwork(all[name])
			}
		}
		fresh := NewDirectory(domain, nil, testSettings())
		for _, n := range served {
			fresh.Serve(n)
		}
		for k, s := range slicesLeft {
			fresh.SetSlice(k, s)
		}
		for _, s := range services {
			fresh.SetService(s)
		}
		for _, n := range all {
			fresh.SetNetwork(n)
		}
		for _, n := range namespaces {
			fresh.SetNamespace(n)
		}
		for name := range served {
			if diff := cmp.Diff(content(fresh.served[name].zone), content(d.served[name].zone)); diff != "" {
				t.Fatalf("Zone of %s (-fresh +grown):\n%s", name, diff)
			}
		}
		if diff := cmp.Diff(edges(fresh), edges(d)); diff != "" {
			t.Fatalf("who knows names of whom (-fresh +grown):\n%s", diff)
		}
		for what, leaves := range map[string]int{"slices": len(d.slices) - len(slicesLeft), "namespaces": len(d.namespaces) - len(namespaces)} {
			if leaves != 0 {
				t.Fatalf("%d %s too many are remembered", leaves, what)
			}
		}
		if len(slicesLeft) == 0 && len(d.behind)+len(d.within) != 0 {
			t.Fatalf("something is remembered of slices that have gone: %v %v", d.behind, d.within)
		}
	})
}

// edges are the Networks whose names a served one knows.
func edges(d *Directory) map[string][]string {
	out := map[string][]string{}
	for provider, consumers := range d.consumers {
		out[provider] = slices.Sorted(maps.Keys(consumers))
	}
	return out
}

// content is all that a Zone holds, as text.
func content(z *Zone) []string {
	var out []string
	for name, ns := range z.namespaces {
		out = append(out, fmt.Sprintf("namespace %s home %v services %d", name, ns.home, ns.services))
	}
	for k, r := range z.services {
		out = append(out, fmt.Sprintf("service %v headless %v own %v endpoints %v", k, r.service.Headless, r.own, r.endpoints))
	}
	for _, a := range slices.Concat(slices.Collect(maps.Keys(z.reverse)), slices.Collect(maps.Keys(z.virtual))) {
		out = append(out, fmt.Sprintf("address %s is %v of %v and %v", a, z.pointersOf(a), z.virtual[a], z.reverse[a]))
	}
	slices.Sort(out)
	return out
}
