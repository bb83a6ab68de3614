package dns

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// offering is a Network that is compatible with others.
func offering(n *model.Network, consumers ...string) *model.Network {
	for _, c := range consumers {
		n.CompatibleWith = append(n.CompatibleWith, model.CompatiblePeer{Network: c})
	}
	return n
}

// admitting is a Network that all namespaces may attach to.
func admitting(n *model.Network) *model.Network {
	n.Allowed = &match.Selector{}
	return n
}

// providerAndConsumer are red, which offers, blue, which reaches it, and green, which only red reaches. All have the same own addresses.
func providerAndConsumer(t testing.TB) *world {
	red := offering(admitting(ranged("red", "10.9.0.0/16")), "blue")
	w := newWorld(t, red, admitting(vpc("blue")), offering(admitting(vpc("green")), "red"))
	for _, n := range []string{"red", "blue", "green"} {
		w.SetNamespace(namespaceIn(n, n))
	}
	w.SetService(withOwn(clusterIP("red/web", "10.96.1.1", "fd96::1"), "red", "uid-red", "10.9.0.1"))
	w.SetService(clusterIP("red/plain", "10.96.1.2"))
	w.SetService(headless("red/db"))
	w.SetService(&Service{ServiceKey: key("red/outside"), ExternalName: "www.example.com"})
	w.SetService(&Service{ServiceKey: key("red/alias"), ExternalName: "plain.red.svc.cluster.local"})
	w.SetService(clusterIP("green/web", "10.96.3.1"))
	w.SetService(clusterIP("green/behind", "10.96.3.2"))
	w.SetService(clusterIP("default/kubernetes", "10.96.0.1"))
	w.put("web-1", slice("red/web", "red", "10.0.0.5>100.64.0.5"))
	w.put("db-1",
		slice("red/db", "red", "db-0=10.0.0.10>100.64.0.10", "10.0.0.11>100.64.0.11", "!db-2=10.0.0.12>100.64.0.12", "db-3=10.0.0.13"))
	w.put("db-2", slice("red/db", "red", "db-0=fd00::10>fd64:a701::10"))
	w.put("db-3", slice("red/db", "green", "db-9=10.0.0.10>100.64.0.90"))
	// Red sees a Service of green that has a pod in it.
	w.put("behind-1", slice("green/behind", "red", "10.0.0.7>100.64.0.7"))
	w.SetComplete()
	return w
}

// TestNamesOfAProvider: a consumer knows what its provider offers, by addresses that it can dial, and nothing else of it.
func TestNamesOfAProvider(t *testing.T) {
	w := providerAndConsumer(t)
	for _, c := range []struct {
		network, name string
		kind          uint16
		want          string
	}{
		{"blue", "web.red.svc.cluster.local.", dns.TypeA, "NOERROR\nweb.red.svc.cluster.local. A 10.9.0.1"},
		{"blue", "web.red.svc.cluster.local.", dns.TypeAAAA, "NOERROR\nweb.red.svc.cluster.local. AAAA fd96::1"},
		{"blue", "plain.red.svc.cluster.local.", dns.TypeA, "NOERROR\nplain.red.svc.cluster.local. A 10.96.1.2"},
		{
			"blue", "db.red.svc.cluster.local.", dns.TypeA,
			"NOERROR\ndb.red.svc.cluster.local. A 100.64.0.10\ndb.red.svc.cluster.local. A 100.64.0.11",
		},
		{"blue", "db.red.svc.cluster.local.", dns.TypeAAAA, "NOERROR\ndb.red.svc.cluster.local. AAAA fd64:a701::10"},
		{"blue", "db-0.db.red.svc.cluster.local.", dns.TypeA, "NOERROR\ndb-0.db.red.svc.cluster.local. A 100.64.0.10"},
		{"blue", "100-64-0-11.db.red.svc.cluster.local.", dns.TypeA, "NOERROR\n100-64-0-11.db.red.svc.cluster.local. A 100.64.0.11"},
		{"blue", "10-0-0-11.db.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"blue", "db-2.db.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		// One without a face cannot be dialled, and neither can one in a Network that blue does not reach.
		{"blue", "db-3.db.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"blue", "db-9.db.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"blue", "outside.red.svc.cluster.local.", dns.TypeCNAME, "NOERROR\noutside.red.svc.cluster.local. CNAME www.example.com."},
		{
			"blue", "alias.red.svc.cluster.local.", dns.TypeA,
			"NOERROR\nalias.red.svc.cluster.local. CNAME plain.red.svc.cluster.local.\nplain.red.svc.cluster.local. A 10.96.1.2",
		},
		{"blue", "1.0.9.10.in-addr.arpa.", dns.TypePTR, "NOERROR\n1.0.9.10.in-addr.arpa. PTR web.red.svc.cluster.local."},
		{"blue", "10.0.64.100.in-addr.arpa.", dns.TypePTR, "NOERROR\n10.0.64.100.in-addr.arpa. PTR db-0.db.red.svc.cluster.local."},
		{"blue", "10.0.0.10.in-addr.arpa.", dns.TypePTR, "NXDOMAIN"},
		{"blue", "12.0.64.100.in-addr.arpa.", dns.TypePTR, "NXDOMAIN"},
		// Neither what red only sees nor what red reaches.
		{"red", "behind.green.svc.cluster.local.", dns.TypeA, "NOERROR\nbehind.green.svc.cluster.local. A 10.96.3.2"},
		{"blue", "behind.green.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"red", "web.green.svc.cluster.local.", dns.TypeA, "NOERROR\nweb.green.svc.cluster.local. A 10.96.3.1"},
		{"blue", "web.green.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		// Not the other way round, and not for those that are no consumers.
		{"red", "web.blue.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"green", "web.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"green", "10.0.64.100.in-addr.arpa.", dns.TypePTR, "NXDOMAIN"},
		// Red's own pods go on as ever.
		{"red", "db-0.db.red.svc.cluster.local.", dns.TypeA, "NOERROR\ndb-0.db.red.svc.cluster.local. A 10.0.0.10"},
		{"red", "10.0.64.100.in-addr.arpa.", dns.TypePTR, "NXDOMAIN"},
	} {
		if got := answered(w.ask(t, c.network, c.name, c.kind)); got != c.want {
			t.Errorf("%s asks for %s %s:\n%s\nwant\n%s", c.network, c.name, dns.TypeToString[c.kind], got, c.want)
		}
	}
	m := w.ask(t, "blue", "_http._tcp.db.red.svc.cluster.local.", dns.TypeSRV)
	want := []string{
		"100-64-0-11.db.red.svc.cluster.local. A 100.64.0.11", "db-0.db.red.svc.cluster.local. A 100.64.0.10",
		"db-0.db.red.svc.cluster.local. AAAA fd64:a701::10",
	}
	if got := told(m.Extra); len(m.Answer) != 2 || !slices.Equal(got, want) {
		t.Errorf("SRV: %v with\n%s\nwant\n%s", m.Answer, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestNamesFollowCompatibility: names come and go with whatever they come from.
func TestNamesFollowCompatibility(t *testing.T) {
	w := providerAndConsumer(t)
	red := *w.networks["red"]
	hosts := func(name string) string {
		t.Helper()
		m := w.ask(t, "blue", name+".svc.cluster.local.", dns.TypeA)
		if m.Rcode != dns.RcodeSuccess {
			return dns.RcodeToString[m.Rcode]
		}
		var out []string
		for _, line := range told(m.Answer) {
			out = append(out, line[strings.LastIndex(line, " ")+1:])
		}
		return strings.Join(out, " ")
	}
	check := func(what, name, want string) {
		t.Helper()
		if got := hosts(name); got != want {
			t.Errorf("%s: %s is %q, want %q", what, name, got, want)
		}
	}
	const none, faces = "NXDOMAIN", "100.64.0.10 100.64.0.11"
	check("at first", "db.red", faces)

	closed := red
	closed.CompatibleWith = nil
	w.SetNetwork(&closed)
	check("not compatible any more", "db.red", none)
	check("not compatible any more", "red", none)
	w.SetNetwork(&red)
	check("compatible again", "db.red", faces)
	w.RemoveNetwork("red", "uid-before")
	check("an earlier Network of its name has gone", "db.red", faces)
	w.RemoveNetwork("red", "uid-red")
	check("the provider has gone", "db.red", none)
	w.SetNetwork(&red)

	// A third Network's pods are known when it is reached, too, and the provider's Services by their addresses there.
	w.SetNetwork(offering(admitting(vpc("green")), "red", "blue"))
	check("green is reached, too", "db.red", faces+" 100.64.0.90")
	check("green is reached, too", "behind.green", "10.96.3.2")
	w.SetNetwork(offering(admitting(vpc("green")), "red"))
	check("green is not reached any more", "db.red", faces)
	check("green is not reached any more", "behind.green", none)

	// The consumer's own pods behind a provider's Service are dialled by their own addresses.
	w.put("db-4", slice("red/db", "blue", "db-8=10.0.0.80>100.64.0.80"))
	check("an endpoint in blue itself", "db.red", "10.0.0.80 "+faces)
	w.SetNetwork(&closed)
	check("that alone", "db.red", "10.0.0.80")
	w.SetNetwork(&red)
	w.RemoveSlice(SliceKey{Namespace: "red", Name: "db-4"})

	other := red
	other.ServiceCIDRs = nil
	w.SetNetwork(&other)
	check("the provider has no service range any more", "web.red", "10.96.1.1")
	w.SetNetwork(&red)
	check("it has one again", "web.red", "10.9.0.1")
	// A consumer of another tenant knows addresses of the range only if it names that.
	foreign := *w.networks["blue"]
	same := foreign
	foreign.Tenant, foreign.Uses = "other", []string{"red"}
	w.SetNetwork(&foreign)
	check("another tenant's, which uses it", "web.red", "10.96.1.1")
	named := foreign
	named.UsesServiceCIDRs = map[string][]netip.Prefix{"red": red.ServiceCIDRs}
	w.SetNetwork(&named)
	check("another tenant's, which names the range", "web.red", "10.9.0.1")
	w.SetNetwork(&foreign)
	check("and names it no more", "web.red", "10.96.1.1")
	w.SetNetwork(&same)
	tenants := red
	tenants.Allowed, tenants.Tenant = nil, "colours"
	consumer := *w.networks["blue"]
	consumer.Tenant = "colours"
	w.SetNetwork(&consumer)
	w.SetNetwork(&tenants)
	check("the namespace may not attach", "db.red", none)
	w.SetNamespace(&model.Namespace{Name: "red", Labels: map[string]string{model.LabelNetwork: "red", model.LabelTenant: "colours"}})
	check("it may", "db.red", faces)
	w.SetNamespace(namespaceIn("red", "green"))
	check("it is another's", "db.red", none)
	w.SetNamespace(&model.Namespace{Name: "red", Labels: map[string]string{model.LabelNetwork: "red", model.LabelTenant: "colours"}})

	w.RemoveService(key("red/db"))
	check("the Service has gone", "db.red", none)
	w.SetService(headless("red/db"))
	w.put("db-1", slice("red/db", "red", "10.0.0.14>100.64.0.14"))
	check("it has other endpoints", "db.red", "100.64.0.14")
	w.Leave("blue")
	if len(w.consumers) != 0 {
		t.Errorf("a Network that is not served any more is remembered as a consumer: %v", w.consumers)
	}
	w.serve(&consumer)
	check("it is served again", "db.red", "100.64.0.14")
}

// TestTheAPIIsNobodysOffer: whatever its namespace says, the API's Service is known where infraAccess lets it be.
func TestTheAPIIsNobodysOffer(t *testing.T) {
	w := providerAndConsumer(t)
	closed := *w.networks["blue"]
	closed.Infra = model.InfraNone
	w.serve(&closed)
	w.SetNamespace(namespaceIn("default", "red"))
	if got := answered(w.ask(t, "blue", "kubernetes.default.svc.cluster.local.", dns.TypeA)); got != "NXDOMAIN" {
		t.Error(got)
	}
}
