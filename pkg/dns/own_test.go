package dns

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// ranged is a Network with service ranges.
func ranged(name string, ranges ...string) *model.Network {
	n := vpc(name)
	for _, r := range ranges {
		n.ServiceCIDRs = append(n.ServiceCIDRs, netip.MustParsePrefix(r))
	}
	return n
}

// withOwn gives a Service addresses in a Network of that name and UID.
func withOwn(s *Service, network, uid string, addresses ...string) *Service {
	own := &model.ServiceAddresses{ServiceUID: "uid", Network: network, NetworkUID: uid}
	for _, a := range addresses {
		own.Addresses = append(own.Addresses, addr(a))
	}
	s.Own = own
	return s
}

// TestTheSameAddressInTwoNetworks: a Service is known under the address of its own Network, in that Network.
func TestTheSameAddressInTwoNetworks(t *testing.T) {
	red := ranged("red", "10.9.0.0/16", "fd09::/112")
	red.Allowed = &match.Selector{}
	w := newWorld(t, red, ranged("blue", "10.9.0.0/16"))
	for _, n := range []string{"red", "blue"} {
		w.SetNamespace(namespaceIn(n, n))
	}
	w.SetService(clusterIP("default/kubernetes", "10.96.0.1"))
	w.SetService(withOwn(clusterIP("red/web", "10.96.1.1", "fd96::1"), "red", "uid-red", "10.9.0.1", "fd09::1"))
	w.SetService(withOwn(clusterIP("blue/web", "10.96.1.2", "fd96::2"), "blue", "uid-blue", "10.9.0.1"))
	w.SetService(clusterIP("blue/plain", "10.96.1.3"))
	// A Service of blue with a pod in red is known there, by its ClusterIP.
	w.put("web-1", slice("blue/web", "red", "10.0.0.5"))
	w.SetComplete()
	for _, c := range []struct {
		network, name string
		kind          uint16
		want          string
	}{
		{"red", "web.red.svc.cluster.local.", dns.TypeA, "NOERROR\nweb.red.svc.cluster.local. A 10.9.0.1"},
		{"red", "web.red.svc.cluster.local.", dns.TypeAAAA, "NOERROR\nweb.red.svc.cluster.local. AAAA fd09::1"},
		{"red", "web.blue.svc.cluster.local.", dns.TypeA, "NOERROR\nweb.blue.svc.cluster.local. A 10.96.1.2"},
		{"red", "web.blue.svc.cluster.local.", dns.TypeAAAA, "NOERROR\nweb.blue.svc.cluster.local. AAAA fd96::2"},
		{"blue", "web.blue.svc.cluster.local.", dns.TypeA, "NOERROR\nweb.blue.svc.cluster.local. A 10.9.0.1"},
		// Its Network has no range of this family: the ClusterIP stays.
		{"blue", "web.blue.svc.cluster.local.", dns.TypeAAAA, "NOERROR\nweb.blue.svc.cluster.local. AAAA fd96::2"},
		{"blue", "web.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"blue", "plain.blue.svc.cluster.local.", dns.TypeA, "NOERROR\nplain.blue.svc.cluster.local. A 10.96.1.3"},
		{"red", "kubernetes.default.svc.cluster.local.", dns.TypeA, "NOERROR\nkubernetes.default.svc.cluster.local. A 10.96.0.1"},
		{"red", "1.0.9.10.in-addr.arpa.", dns.TypePTR, "NOERROR\n1.0.9.10.in-addr.arpa. PTR web.red.svc.cluster.local."},
		{"blue", "1.0.9.10.in-addr.arpa.", dns.TypePTR, "NOERROR\n1.0.9.10.in-addr.arpa. PTR web.blue.svc.cluster.local."},
		// Programs that got the ClusterIP from their environment look it up, too.
		{"red", "1.1.96.10.in-addr.arpa.", dns.TypePTR, "NOERROR\n1.1.96.10.in-addr.arpa. PTR web.red.svc.cluster.local."},
		{"red", "2.0.9.10.in-addr.arpa.", dns.TypePTR, "NXDOMAIN"},
	} {
		if got := answered(w.ask(t, c.network, c.name, c.kind)); got != c.want {
			t.Errorf("%s asks for %s %s:\n%s\nwant\n%s", c.network, c.name, dns.TypeToString[c.kind], got, c.want)
		}
	}
	m := w.ask(t, "red", "_http._tcp.web.red.svc.cluster.local.", dns.TypeSRV)
	extra := strings.Join(told(m.Extra), "\n")
	if want := "web.red.svc.cluster.local. A 10.9.0.1\nweb.red.svc.cluster.local. AAAA fd09::1"; len(m.Answer) != 1 || extra != want {
		t.Errorf("SRV: %v with\n%s\nwant\n%s", m.Answer, extra, want)
	}
	// A Service that loses its address is known by its ClusterIP again.
	w.SetService(clusterIP("red/web", "10.96.1.1", "fd96::1"))
	if got := answered(w.ask(t, "red", "1.0.9.10.in-addr.arpa.", dns.TypePTR)); got != "NXDOMAIN" {
		t.Errorf("the address that it had: %s", got)
	}
}

// TestOwnAddressesThatDoNotCount: what somebody writes on a Service leads its name to no address but one of the ranges of
// its own Network.
func TestOwnAddressesThatDoNotCount(t *testing.T) {
	for what, service := range map[string]*Service{
		"of no range":            withOwn(clusterIP("red/web", "10.96.1.1"), "red", "uid-red", "10.0.0.5"),
		"of another Network":     withOwn(clusterIP("red/web", "10.96.1.1"), "blue", "uid-blue", "10.9.0.1"),
		"of an earlier Network":  withOwn(clusterIP("red/web", "10.96.1.1"), "red", "uid-before", "10.9.0.1"),
		"of a family it has not": withOwn(clusterIP("red/web", "10.96.1.1"), "red", "uid-red", "fd09::1"),
	} {
		w := newWorld(t, ranged("red", "10.9.0.0/16", "fd09::/112"))
		w.SetNamespace(namespaceIn("red", "red"))
		w.SetService(service)
		w.SetComplete()
		want := "NOERROR\nweb.red.svc.cluster.local. A 10.96.1.1"
		if got := answered(w.ask(t, "red", "web.red.svc.cluster.local.", dns.TypeA)); got != want {
			t.Errorf("%s: %s", what, got)
		}
		for _, a := range service.Own.Addresses {
			name, err := dns.ReverseAddr(a.String())
			if err != nil {
				t.Fatal(err)
			}
			if got := answered(w.ask(t, "red", name, dns.TypePTR)); got != "NXDOMAIN" {
				t.Errorf("%s: its reverse name: %s", what, got)
			}
		}
	}
	// A namespace that may not attach, with a pod that could once, has no address there.
	red := ranged("red", "10.9.0.0/16")
	red.Tenant = "colours"
	w := newWorld(t, red)
	w.SetNamespace(namespaceIn("red", "red"))
	w.SetService(withOwn(clusterIP("red/web", "10.96.1.1"), "red", "uid-red", "10.9.0.1"))
	w.put("web-1", slice("red/web", "red", "10.0.0.5"))
	w.SetComplete()
	if got := answered(w.ask(t, "red", "web.red.svc.cluster.local.", dns.TypeA)); got != "NXDOMAIN" {
		t.Errorf("a namespace that may not attach: %s", got)
	}
}

// TestReverseNamesOfARangeStayHere: also where the range is one that the world knows.
func TestReverseNamesOfARangeStayHere(t *testing.T) {
	n := ranged("red", "8.8.8.0/24")
	n.Egress = model.EgressNode
	w := newWorld(t, n)
	w.SetComplete()
	m := w.ask(t, "red", "9.8.8.8.in-addr.arpa.", dns.TypePTR)
	if m.Rcode != dns.RcodeNameError {
		t.Errorf("%v", m)
	}
}

// TestARefusedServiceHasNoName: neither in its Network nor in those that reach it, also where pods are behind it. What is headless since
// has no address that could lead nowhere.
func TestARefusedServiceHasNoName(t *testing.T) {
	w := newWorld(t, offering(admitting(ranged("red", "10.9.0.0/16")), "blue"), admitting(vpc("blue")))
	w.SetNamespace(namespaceIn("red", "red"))
	w.SetNamespace(namespaceIn("blue", "blue"))
	web := clusterIP("red/web", "10.96.1.1")
	w.SetService(web)
	w.put("web-1", slice("red/web", "red", "10.0.0.5"))
	w.SetComplete()
	ask := func(network string) string {
		return answered(w.ask(t, network, "web.red.svc.cluster.local.", dns.TypeA))
	}
	const known = "NOERROR\nweb.red.svc.cluster.local. A 10.96.1.1"
	if red, blue := ask("red"), ask("blue"); red != known || blue != known {
		t.Fatalf("before: %s, %s", red, blue)
	}
	refused := *web
	refused.Own = &model.ServiceAddresses{ServiceUID: "uid", Refused: true}
	w.SetService(&refused)
	for _, network := range []string{"red", "blue"} {
		if got := ask(network); got != "NXDOMAIN" {
			t.Errorf("%s: %s", network, got)
		}
	}
	if got := answered(w.ask(t, "red", "1.1.96.10.in-addr.arpa.", dns.TypePTR)); got != "NXDOMAIN" {
		t.Errorf("its reverse name: %s", got)
	}
	headless := refused
	headless.ClusterIPs, headless.Headless = nil, true
	w.SetService(&headless)
	if got := ask("red"); got != "NOERROR\nweb.red.svc.cluster.local. A 10.0.0.5" {
		t.Errorf("headless: %s", got)
	}
	w.SetService(web)
	if got := ask("red"); got != known {
		t.Errorf("with room: %s", got)
	}
}
