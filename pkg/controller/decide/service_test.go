package decide_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// service is a Service with one TCP port, 80.
func service(ns, name, ip string) model.Service {
	return model.Service{
		Key: model.ServiceKey{Namespace: ns, Name: name}, UID: "uid-" + ns + "-" + name,
		ClusterIPs: []netip.Addr{netip.MustParseAddr(ip)},
		Ports:      []model.ServicePort{{Protocol: model.TCP, Port: 80}},
	}
}

// slice is a slice of the Service whose endpoints serve on port 8080.
func slice(ns, name, of string) model.Slice {
	return model.Slice{
		Key: model.SliceKey{Namespace: ns, Name: name}, UID: "uid-" + ns + "-" + name, Service: of,
		Ports: []model.SlicePort{{Protocol: model.TCP, Port: 8080}},
	}
}

// endpoint is a ready one; with no name it is no pod.
func endpoint(ns, pod, address string) model.Endpoint {
	e := model.Endpoint{Address: netip.MustParseAddr(address), Ready: true, Serving: true}
	if pod != "" {
		e.Pod = model.PodKey{Namespace: ns, Name: pod}
	}
	return e
}

// lbs are the virtual addresses of a Service in each Network and where they lead. Load balancers of endpoints that have been
// left are those of the Network's name with ":left", and what it offers to others those with ":offered", ":ranges" and ":joined".
func (w *world) lbs(ns, name string) map[string]map[string]string {
	return w.lbsOf(nb.ServiceOwner(ns, name))
}

func (w *world) lbsOf(owner nb.Owner) map[string]map[string]string {
	out := map[string]map[string]string{}
	facts, _ := w.graph.Facts(owner)
	networks := map[nb.Ref]string{}
	for _, row := range facts.Rows {
		networks[nb.RefOf(row)] = row.Owned()[nb.KeyNetwork]
		if lb, ok := row.(*nb.LoadBalancer); ok && strings.HasSuffix(lb.Name, ":left") {
			networks[nb.RefOf(row)] += ":left"
		} else if ok && strings.Contains(lb.Name, ":offered/") {
			networks[nb.RefOf(row)] += ":offered"
		} else if ok && strings.Contains(lb.Name, ":ranges/") {
			networks[nb.RefOf(row)] += ":ranges"
		} else if ok && strings.Contains(lb.Name, ":joined/") {
			networks[nb.RefOf(row)] += ":joined"
		}
	}
	for _, m := range facts.Members {
		if !m.IsMap() {
			continue
		}
		network, own := networks[m.Row]
		if !own {
			continue // a former group: see TestFormerGroups
		}
		if out[network] == nil {
			out[network] = map[string]string{}
		}
		vip, backends := nb.SplitPair(m.Value)
		out[network][vip] = backends
	}
	return out
}

func (w *world) wantLBs(t *testing.T, ns, name string, want map[string]map[string]string) {
	t.Helper()
	w.settle()
	if diff := cmp.Diff(want, w.lbs(ns, name)); diff != "" {
		t.Errorf("load balancers (-want +got):\n%s", diff)
	}
}

// servedWorld has a Network red, whose namespace is r, beside the default one, whose namespace is a; node n1 and a
// Service web in r with one endpoint, pod p.
func servedWorld(t *testing.T) (*world, model.Pod, model.Slice) {
	t.Helper()
	w := facedWorld("100.64.0.0/10")
	n := node("n1", 1)
	n.Addresses = []netip.Addr{netip.MustParseAddr("172.18.0.2")}
	w.setNode(n)
	w.setNamespace("r", map[string]string{model.LabelNetwork: "red"})
	p := pod("r", "p", "")
	w.setPod(p)
	w.setService(service("r", "web", "10.96.0.5"))
	w.settle()
	s := slice("r", "web-1", "web")
	s.Endpoints = []model.Endpoint{endpoint("r", "p", w.attachment(p.Key).Faces[0].String())}
	w.setSlice(s)
	return w, p, s
}

func TestAServiceLeadsToOwnAddressesInItsNetworkAndToFacesInTheDefaultOne(t *testing.T) {
	w, p, s := servedWorld(t)
	w.wantLBs(t, "r", "web", map[string]map[string]string{
		"red":     {"10.96.0.5:80": "10.0.0.2:8080"},
		"default": {"10.96.0.5:80": "100.64.0.1:8080"},
	})
	w.deletePod(p.Key)
	refused := map[string]map[string]string{"red": {"10.96.0.5:80": ""}, "default": {"10.96.0.5:80": ""}}
	w.wantLBs(t, "r", "web", refused)
	w.deleteSlice(s.Key)
	w.wantLBs(t, "r", "web", refused)
	w.deleteService(model.ServiceKey{Namespace: "r", Name: "web"})
	w.wantLBs(t, "r", "web", map[string]map[string]string{})
}

func TestEndpointsThatAreReadyOrGoing(t *testing.T) {
	w, _, s := servedWorld(t)
	q := pod("r", "q", "")
	w.setPod(q)
	w.settle()
	own := func(name string) string {
		return w.attachment(model.PodKey{Namespace: "r", Name: name}).Addresses[0].Addr().String() + ":8080"
	}
	for _, test := range []struct {
		what     string
		p, q     [2]bool // ready, serving
		backends []string
	}{
		{"both ready", [2]bool{true, true}, [2]bool{true, true}, []string{own("p"), own("q")}},
		{"one ready, one going", [2]bool{true, true}, [2]bool{false, true}, []string{own("p")}},
		{"one going, one not ready", [2]bool{false, true}, [2]bool{false, false}, []string{own("p")}},
		{"none serving", [2]bool{false, false}, [2]bool{false, false}, nil},
	} {
		s.Endpoints = []model.Endpoint{endpoint("r", "p", "100.64.0.1"), endpoint("r", "q", "100.64.0.2")}
		s.Endpoints[0].Ready, s.Endpoints[0].Serving = test.p[0], test.p[1]
		s.Endpoints[1].Ready, s.Endpoints[1].Serving = test.q[0], test.q[1]
		w.setSlice(s)
		w.settle()
		got, want := w.lbs("r", "web")["red"]["10.96.0.5:80"], ""
		for i, b := range test.backends {
			want += map[bool]string{true: ","}[i > 0] + b
		}
		if got != want {
			t.Errorf("%s: %q, want %q", test.what, got, want)
		}
	}
}

func TestWhatATenantWritesIntoASlice(t *testing.T) {
	w, p, s := servedWorld(t)
	stranger := pod("a", "infra", "")
	w.setPod(stranger)
	w.settle()
	raw := func(address string) model.Endpoint { return endpoint("r", "", address) }
	for _, test := range []struct {
		what          string
		endpoint      model.Endpoint
		red, default_ string
	}{
		{"an address that is no pod's is dialled from the namespace's own Network only", raw("10.244.0.9"), "10.244.0.9:8080", ""},
		{
			"a pod's name with another pod's UID", func() model.Endpoint { e := endpoint("r", "p", "100.64.0.1"); e.PodUID = "other"; return e }(),
			"", "",
		},
		{"a pod that is not there, at another's address", endpoint("r", "nobody", "100.64.0.1"), "", ""},
		{"a pod that is not among ours, at a node's address", endpoint("r", "nobody", "172.18.0.2"), "172.18.0.2:8080", ""},
	} {
		s.Endpoints = []model.Endpoint{test.endpoint}
		w.setSlice(s)
		w.settle()
		got := w.lbs("r", "web")
		if got["red"]["10.96.0.5:80"] != test.red || got["default"]["10.96.0.5:80"] != test.default_ {
			t.Errorf("%s: got %v", test.what, got)
		}
	}
	_ = p
}

func TestANetworkMayNotHaveServicesOfStrangers(t *testing.T) {
	w, _, _ := servedWorld(t)
	n := tenantNetwork("acme", "red", "front", "10.0.0.0/24")
	w.setNetwork(n)
	w.wantLBs(t, "r", "web", map[string]map[string]string{"default": {"10.96.0.5:80": ""}})
	w.setNamespace("r", map[string]string{model.LabelNetwork: "red", model.LabelTenant: "acme"})
	w.wantLBs(t, "r", "web", map[string]map[string]string{
		"red":     {"10.96.0.5:80": "10.0.0.2:8080"},
		"default": {"10.96.0.5:80": "100.64.0.1:8080"},
	})
}

func TestAServiceOfTwoProtocolsAndFamilies(t *testing.T) {
	w := facedWorld()
	n := node("n1", 1)
	n.Addresses = []netip.Addr{netip.MustParseAddr("172.18.0.2"), netip.MustParseAddr("fd18::2")}
	w.setNode(n)
	s := service("a", "api", "10.96.0.1")
	s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr("fd96::1"))
	s.Ports = []model.ServicePort{{Name: "https", Protocol: model.TCP, Port: 443}, {Name: "quic", Protocol: model.UDP, Port: 443}}
	s.Affinity = 10800
	w.setService(s)
	for i, address := range []string{"172.18.0.2", "fd18::2"} {
		e := slice("a", fmt.Sprintf("api-%d", i), "api")
		e.Ports = []model.SlicePort{{Name: "https", Protocol: model.TCP, Port: 6443}, {Name: "quic", Protocol: model.UDP, Port: 6444}}
		e.Endpoints = []model.Endpoint{endpoint("a", "", address)}
		w.setSlice(e)
	}
	w.wantLBs(t, "a", "api", map[string]map[string]string{"default": {
		"10.96.0.1:443": "172.18.0.2:6444", "[fd96::1]:443": "[fd18::2]:6444",
	}})
	facts, _ := w.graph.Facts(nb.ServiceOwner("a", "api"))
	var seen []string
	for _, row := range facts.Rows {
		lb := row.(*nb.LoadBalancer)
		text := fmt.Sprint(*lb.Protocol, lb.SelectionFields, lb.Options)
		for _, m := range facts.Members {
			if m.Row == nb.RefOf(lb) {
				vip, backends := nb.SplitPair(m.Value)
				text += " " + vip + "=" + backends
			}
		}
		seen = append(seen, text)
	}
	want := []string{
		// That of endpoints that are going; there are none.
		"udp[] map[ct_flush:true neighbor_responder:none]",
		"tcp[eth_src] map[reject:true] 10.96.0.1:443=172.18.0.2:6443 [fd96::1]:443=[fd18::2]:6443",
		"udp[eth_src] map[ct_flush:true reject:true] 10.96.0.1:443=172.18.0.2:6444 [fd96::1]:443=[fd18::2]:6444",
	}
	if !slices.Equal(seen, want) || len(facts.Members) != 7 {
		t.Errorf("%q in %v", seen, facts.Members)
	}
}

func TestATenantsServiceAnswersForNames(t *testing.T) {
	w, _, _ := servedWorld(t)
	w.state = decide.NewState(decide.Defaults{
		Network: "default", Faces: withFaces("100.64.0.0/10").Faces, DNS: model.ServiceKey{Namespace: "kube-system", Name: "kube-dns"},
	}, w.graph, w.cluster)
	w.setNamespace("kube-system", nil)
	s := service("r", "names", "10.96.0.7")
	s.Ports = []model.ServicePort{
		{Name: "dns", Protocol: model.UDP, Port: 5353},
		{Name: "dns-tcp", Protocol: model.TCP, Port: 5353},
		{Name: "metrics", Protocol: model.TCP, Port: 53},
	}
	w.setService(s)
	e := slice("r", "names-1", "names")
	e.Ports = []model.SlicePort{
		{Name: "dns", Protocol: model.UDP, Port: 53},
		{Name: "dns-tcp", Protocol: model.TCP, Port: 53},
		{Name: "metrics", Protocol: model.TCP, Port: 9153},
	}
	e.Endpoints = []model.Endpoint{endpoint("r", "p", "100.64.0.1")}
	w.setSlice(e)
	n := network("red", "front", "10.0.0.0/24")
	n.DNS, n.DNSService = model.DNSService, model.ServiceRef{Namespace: "r", Name: "names"}
	w.setNetwork(n)
	w.replay(map[string]map[string]string{"r": {model.LabelNetwork: "red"}, "a": nil, "kube-system": nil})
	w.settle()
	own := map[string]string{"10.96.0.7:5353": "10.0.0.2:53", "10.96.0.7:53": "10.0.0.2:9153"}
	if diff := cmp.Diff(own, w.lbs("r", "names")["red"]); diff != "" {
		t.Errorf("while the cluster has no Service for names (-want +got):\n%s", diff)
	}
	w.setService(service("kube-system", "kube-dns", "10.96.0.10"))
	w.settle()
	if diff := cmp.Diff(own, w.lbs("r", "names")["red"]); diff != "" {
		t.Errorf("the Service's own addresses (-want +got):\n%s", diff)
	}
	w.wantNames(t, "once there is one", "red", "udp 10.96.0.10:53=10.0.0.2:53", "tcp 10.96.0.10:53=10.0.0.2:53")
	w.wantNames(t, "in the default Network", "default")
	n.DNS = model.DNSNode
	w.setNetwork(n)
	w.settle()
	w.wantNames(t, "when it answers no more", "red")
	if diff := cmp.Diff(own, w.lbs("r", "names")["red"]); diff != "" {
		t.Errorf("when it answers no more (-want +got):\n%s", diff)
	}
}

// TestAddressesOfALoadBalancer: they lead to the Service inside its Network, as long as they mean nothing else there, and never in
// the default one.
func TestAddressesOfALoadBalancer(t *testing.T) {
	w, _, _ := servedWorld(t)
	s := service("r", "web", "10.96.0.5")
	const public = "203.0.113.5"
	for _, text := range []string{public, "10.0.0.77", "10.8.0.5", "10.244.0.77", "100.64.0.9", "10.96.0.1"} {
		s.Published = append(s.Published, netip.MustParseAddr(text))
	}
	w.setService(s)
	want := func(red ...string) {
		t.Helper()
		own := map[string]string{"10.96.0.5:80": "10.0.0.2:8080"}
		for _, a := range red {
			own[a+":80"] = "10.0.0.2:8080"
		}
		w.wantLBs(t, "r", "web", map[string]map[string]string{"red": own, "default": {"10.96.0.5:80": "100.64.0.1:8080"}})
	}
	want(public, "10.8.0.5", "10.96.0.1")
	w.setNamespace("default", nil)
	w.setService(service("default", "kubernetes", "10.96.0.1"))
	want(public, "10.8.0.5")

	// The Network may get a subnet there, and lose one.
	n := network("red", "front", "10.0.0.0/26", "back", "10.8.0.0/24")
	w.setNetwork(n)
	want(public, "10.0.0.77")
	// Or a range of Services.
	n = network("red", "front", "10.0.0.0/24")
	n.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	w.setNetwork(n)
	w.settle()
	if to, has := w.lbs("r", "web")["red"][public+":80"]; has &&
		!slices.Contains(w.services[s.Key].Assigned.Addresses, netip.MustParseAddr(public)) {
		t.Errorf("an address of the Network's own range leads to %s", to)
	}
	w.setNetwork(network("red", "front", "10.0.0.0/24"))
	want(public, "10.8.0.5")

	// What the infrastructure has may change, too.
	home := network("default", "pods", "10.8.0.0/24")
	home.Type = model.Flat
	w.setNetwork(home)
	w.settle()
	if to, has := w.lbs("r", "web")["red"]["10.8.0.5:80"]; has {
		t.Errorf("an address of the default Network leads to %s", to)
	}
	w.setService(service("r", "web", "10.96.0.5"))
	w.settle()
	if got := w.lbs("r", "web")["red"]; len(got) != 1 {
		t.Errorf("without a load balancer: %v", got)
	}
}
