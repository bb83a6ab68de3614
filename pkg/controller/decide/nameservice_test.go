package decide_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// wantNames compares where a Network's questions for names lead, such as "udp 10.96.0.10:53=10.0.0.2:53"; nothing: no Service is asked.
func (w *world) wantNames(t *testing.T, when, network string, want ...string) {
	t.Helper()
	w.settle()
	facts, _ := w.graph.Facts(nb.NamesOwner(network))
	var got []string
	for _, row := range facts.Rows {
		lb := row.(*nb.LoadBalancer)
		for _, m := range facts.Members {
			if m.Row == nb.RefOf(lb) && m.IsMap() && !strings.HasSuffix(lb.Name, ":left") {
				dial, backends := nb.SplitPair(m.Value)
				got = append(got, *lb.Protocol+" "+dial+"="+backends)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: Network %s asks (-want +got):\n%s", when, network, diff)
	}
}

// askedWorld is namedWorld, where Service r/names leads to pod p of red, at port 53, and is to answer the questions of Network blue, of
// which namespace b is.
func askedWorld(t *testing.T) *world {
	t.Helper()
	w := namedWorld(t)
	w.setNamespace("b", map[string]string{model.LabelNetwork: "blue"})
	w.setPod(pod("b", "client", ""))
	names := service("r", "names", "10.96.0.7")
	names.Ports = []model.ServicePort{{Name: "dns", Protocol: model.UDP, Port: 5300}, {Name: "dns-tcp", Protocol: model.TCP, Port: 5300}}
	w.setService(names)
	w.setSlice(namesBehind("p"))
	blue := network("blue", "front", "10.1.0.0/24")
	blue.DNS, blue.DNSService = model.DNSService, model.ServiceRef(names.Key)
	w.setNetwork(blue)
	w.settle()
	return w
}

// namesBehind are pods behind Service r/names, by the faces that they have in the order of their names.
func namesBehind(pods ...string) model.Slice {
	s := slice("r", "names-1", "names")
	s.Ports = []model.SlicePort{{Name: "dns", Protocol: model.UDP, Port: 53}, {Name: "dns-tcp", Protocol: model.TCP, Port: 53}}
	for _, p := range pods {
		s.Endpoints = append(s.Endpoints, endpoint("r", p, "100.64.0.1"))
	}
	return s
}

// questionsTo is where questions lead that go to one endpoint; empty: to nobody.
func questionsTo(endpoint string) []string {
	return []string{"udp 10.96.0.10:53=" + endpoint, "tcp 10.96.0.10:53=" + endpoint}
}

func (w *world) wantDNSReady(t *testing.T, when, network, reason string) {
	t.Helper()
	w.settle()
	if c := w.condition(network, model.ConditionDNSReady); c.Reason != reason || c.Status != (reason == "Answered") {
		t.Errorf("%s: Network %s says %+v, want %s", when, network, c, reason)
	}
}

// A Network's questions lead to a Service of one that serves it, for as long as that is so and somebody is behind the Service.
func TestAProvidersServiceAnswersForNames(t *testing.T) {
	w := askedWorld(t)
	expect := func(when, endpoint, reason string) {
		t.Helper()
		w.wantNames(t, when, "blue", questionsTo(endpoint)...)
		w.wantDNSReady(t, when, "blue", reason)
	}
	expect("without a way there", "", model.ReasonDNSServiceNotReached)
	red := *w.networks["red"]
	w.change(func() { delete(w.networks, "red"); w.changes.Networks["red"] = nil })
	expect("without its Network", "", model.ReasonDNSServiceNotFound)
	w.setNetwork(red)
	expect("without a way there, again", "", model.ReasonDNSServiceNotReached)
	w.says("red", model.CompatiblePeer{Network: "blue"})
	expect("by faces", "100.64.0.1:53", "Answered")
	// What the Service's own addresses mean is in the rows that all consumers share.
	if of := w.lbs("r", "names"); of["blue"] != nil || of["red:offered"]["10.96.0.7:5300"] != "100.64.0.1:53" {
		t.Errorf("the Service has %v", of)
	}
	w.wantNames(t, "which asks nobody", "red")

	w.setSlice(namesBehind())
	expect("with nobody behind the Service", "", model.ReasonDNSServiceWithoutEndpoints)
	w.setSlice(namesBehind("p"))
	expect("with somebody again", "100.64.0.1:53", "Answered")
	w.deleteService(model.ServiceKey{Namespace: "r", Name: "names"})
	expect("without the Service", "", model.ReasonDNSServiceNotFound)
	names := service("r", "names", "10.96.0.7")
	names.Ports = []model.ServicePort{{Name: "dns", Protocol: model.UDP, Port: 5300}}
	w.setService(names)
	w.wantNames(t, "by UDP alone", "blue", "udp 10.96.0.10:53=100.64.0.1:53", "tcp 10.96.0.10:53=")

	names.Ports = append(names.Ports, model.ServicePort{Name: "dns-tcp", Protocol: model.TCP, Port: 5300})
	w.setService(names)
	w.says("red", model.CompatiblePeer{Network: "blue", Mode: model.Routed})
	expect("joined", "10.0.0.2:53", "Answered")
	w.says("red")
	expect("without a way there again", "", model.ReasonDNSServiceNotReached)
	w.says("blue", model.CompatiblePeer{Network: "red"})
	expect("in the other direction alone", "", model.ReasonDNSServiceNotReached)
	w.says("red", model.CompatiblePeer{Network: "blue"})
	expect("in both", "100.64.0.1:53", "Answered")
	w.rewrite("blue", func(n *model.Network) { n.DNS = model.DNSNode })
	w.wantNames(t, "when its nodes answer", "blue")
	w.rewrite("blue", func(n *model.Network) { n.DNS = model.DNSNone })
	w.wantNames(t, "when nobody is to answer", "blue", questionsTo("")...)
	if c := w.condition("blue", model.ConditionDNSReady); c.Type != "" {
		t.Errorf("when nobody is to answer it says %+v", c)
	}
	dns := *w.services[model.ServiceKey{Namespace: "kube-system", Name: "kube-dns"}]
	dns.ClusterIPs = []netip.Addr{at("10.96.0.11")}
	w.setService(dns)
	w.wantNames(t, "when pods ask elsewhere", "blue", "udp 10.96.0.11:53=", "tcp 10.96.0.11:53=")
	dns.ClusterIPs = []netip.Addr{at("10.96.0.10")}
	w.setService(dns)
	w.rewrite("blue", func(n *model.Network) { n.DNS = model.DNSNode })
	w.wantNames(t, "when its nodes answer again", "blue")
	w.rewrite("blue", func(n *model.Network) { n.DNS = model.DNSService })
	w.deletePod(model.PodKey{Namespace: "b", Name: "client"})
	gone := *w.networks["blue"]
	gone.Deleting = true
	w.setNetwork(gone)
	w.wantNames(t, "when it is going", "blue")
}

// Nobody is asked who is not reached: neither a Service of another tenant's, of which nobody learns whether it is there, nor pods
// of a third Network behind a Service.
func TestNobodyElseIsAskedForNames(t *testing.T) {
	w := askedWorld(t)
	w.rewrite("red", func(n *model.Network) { n.Tenant, n.CompatibleWith = "acme", []model.CompatiblePeer{{Network: "blue"}} })
	w.setNamespace("r", map[string]string{model.LabelNetwork: "red", model.LabelTenant: "acme"})
	w.wantNames(t, "without the consumer's wish", "blue", questionsTo("")...)
	w.wantDNSReady(t, "without the consumer's wish", "blue", model.ReasonDNSServiceNotFound)
	there := w.condition("blue", model.ConditionDNSReady).Message
	w.rewrite("blue", func(n *model.Network) { n.Uses = []string{"red"} })
	w.wantNames(t, "with it", "blue", questionsTo("100.64.0.1:53")...)
	w.rewrite("red", func(n *model.Network) { n.CompatibleWith = nil })
	w.wantNames(t, "without the provider's", "blue", questionsTo("")...)
	w.deleteService(model.ServiceKey{Namespace: "r", Name: "names"})
	w.settle()
	if not := w.condition("blue", model.ConditionDNSReady).Message; not != there {
		t.Errorf("whether there is a Service tells %q from %q", there, not)
	}

	// A pod of green is behind red's Service. The first asker reaches only red, the second reaches both.
	w = askedWorld(t)
	green := network("green", "front", "10.2.0.0/24")
	green.Allowed = &match.Selector{}
	w.setNetwork(green)
	third := pod("r", "third", "green")
	w.setPod(third)
	w.says("red", model.CompatiblePeer{Network: "blue"})
	face := w.attachment(third.Key).Faces[0]
	s := namesBehind()
	s.Endpoints = []model.Endpoint{endpoint("r", "third", face.String())}
	w.setSlice(s)
	w.wantNames(t, "a third Network's pod", "blue", questionsTo("")...)
	w.wantDNSReady(t, "a third Network's pod", "blue", model.ReasonDNSServiceWithoutEndpoints)
	w.says("green", model.CompatiblePeer{Network: "blue"})
	w.wantNames(t, "of a Network that it reaches, too", "blue", questionsTo(netip.AddrPortFrom(face, 53).String())...)
}

// Rules of a consumer that mean the cluster's DNS mean who answers there.
func TestRulesMeanAProvidersNameServers(t *testing.T) {
	w := askedWorld(t)
	p := askingNames()
	p.Key.Namespace, p.UID, p.Subject.Namespace = "b", "uid-names-of-b", "b"
	w.setPolicy(p)
	expect := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, w.doorsOf(p.Key, "blue")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	expect("without a way there")
	w.says("red", model.CompatiblePeer{Network: "blue"})
	expect("with one", "100.64.0.1 udp.dst == 53")
	w.setSlice(namesBehind())
	expect("with nobody behind the Service")
	w.setSlice(namesBehind("p"))
	w.says("red")
	expect("without a way there again")
}

// TestAnsweredByOthersIsSaid: a Network is soft when another Network's pods answer its names, and its Tenant is soft when these pods
// are another tenant's. A Network whose own pods answer stays hard.
func TestAnsweredByOthersIsSaid(t *testing.T) {
	w := isolatedWorld()
	w.setNamespace("red", map[string]string{model.LabelNetwork: "red"})
	of := func(ns string) {
		s := service(ns, "names", "10.96.0.7")
		s.Ports = []model.ServicePort{{Name: "dns", Protocol: model.UDP, Port: 53}}
		w.setService(s)
		w.rewrite("acme", func(n *model.Network) { n.DNS, n.DNSService = model.DNSService, model.ServiceRef(s.Key) })
	}
	of("shop")
	w.wantIsolation(t, "its own", "acme: Hard", "tenant acme: Hard")
	w.setNamespace("db", map[string]string{model.LabelNetwork: "acme--db", model.LabelTenant: "acme"})
	w.says("acme--db", model.CompatiblePeer{Network: "acme"})
	of("db")
	w.wantIsolation(t, "another one's of the tenant", "acme: Soft AnsweredByOthers UsesOtherNetworks", "tenant acme: Hard")
	w.says("red", model.CompatiblePeer{Network: "acme"})
	of("red")
	w.rewrite("acme", func(n *model.Network) { n.Uses = []string{"red"} })
	w.wantIsolation(t, "another tenant's", "acme: Soft AnsweredByOthers UsesOtherNetworks",
		"tenant acme: Soft AnsweredByOthers UsesOtherNetworks")
	w.says("red")
	w.wantIsolation(t, "which it does not reach any more", "acme: Soft UsesOtherNetworks", "tenant acme: Hard")
}
