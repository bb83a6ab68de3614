package dns

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// TestSpecification follows the sections of the Kubernetes DNS specification 1.1.0.
func TestSpecification(t *testing.T) {
	w := twoNetworks(t)
	for _, test := range []struct {
		section, name string
		kind          uint16
		want          string
	}{
		{"2.2 schema version", "dns-version.cluster.local.", dns.TypeTXT, `NOERROR
dns-version.cluster.local. TXT "1.1.0"`},

		{"2.3.1 A", "kubernetes.default.svc.cluster.local.", dns.TypeA, `NOERROR
kubernetes.default.svc.cluster.local. A 10.96.0.1`},
		{"2.3.1 AAAA", "kubernetes.default.svc.cluster.local.", dns.TypeAAAA, `NOERROR
kubernetes.default.svc.cluster.local. AAAA fd00:96::1`},
		{"2.3.1 a family that it has not", "web.red.svc.cluster.local.", dns.TypeAAAA, "NOERROR"},
		{"2.3.2 SRV", "_http._tcp.web.red.svc.cluster.local.", dns.TypeSRV, `NOERROR
_http._tcp.web.red.svc.cluster.local. SRV 0 100 80 web.red.svc.cluster.local.`},
		{"2.3.2 SRV of two families is one", "_http._tcp.dual.red.svc.cluster.local.", dns.TypeSRV, `NOERROR
_http._tcp.dual.red.svc.cluster.local. SRV 0 50 80 dual.red.svc.cluster.local.`},
		{"2.3.2 a port of another protocol", "_http._udp.web.red.svc.cluster.local.", dns.TypeSRV, "NXDOMAIN"},
		{"2.3.2 a port that it has not", "_https._tcp.web.red.svc.cluster.local.", dns.TypeSRV, "NXDOMAIN"},
		{"2.3.3 PTR", "1.1.96.10.in-addr.arpa.", dns.TypePTR, `NOERROR
1.1.96.10.in-addr.arpa. PTR web.red.svc.cluster.local.`},
		{"2.3.3 PTR of IPv6", "2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa.", dns.TypePTR, `NOERROR
2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa. PTR dual.red.svc.cluster.local.`},

		{"2.4.1 A of ready endpoints", "db.red.svc.cluster.local.", dns.TypeA, `NOERROR
db.red.svc.cluster.local. A 10.0.0.10
db.red.svc.cluster.local. A 10.0.0.11`},
		{"2.4.1 AAAA of ready endpoints", "db.red.svc.cluster.local.", dns.TypeAAAA, `NOERROR
db.red.svc.cluster.local. AAAA fd00::10
db.red.svc.cluster.local. AAAA fd00::11`},
		{"2.4.1 no ready endpoint", "empty.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"2.4.1 not ready, but published", "early.red.svc.cluster.local.", dns.TypeA, `NOERROR
early.red.svc.cluster.local. A 10.0.0.14`},
		{"2.4.1 A of a hostname", "db-0.db.red.svc.cluster.local.", dns.TypeA, `NOERROR
db-0.db.red.svc.cluster.local. A 10.0.0.10`},
		{"2.4.1 AAAA of a hostname", "db-0.db.red.svc.cluster.local.", dns.TypeAAAA, `NOERROR
db-0.db.red.svc.cluster.local. AAAA fd00::10`},
		{"2.4.1 A of an assigned name", "10-0-0-11.db.red.svc.cluster.local.", dns.TypeA, `NOERROR
10-0-0-11.db.red.svc.cluster.local. A 10.0.0.11`},
		{"2.4.1 AAAA of an assigned name", "fd00--11.db.red.svc.cluster.local.", dns.TypeAAAA, `NOERROR
fd00--11.db.red.svc.cluster.local. AAAA fd00::11`},
		{"2.4.1 a hostname that is not ready", "db-2.db.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"2.4.2 SRV", "_http._tcp.db.red.svc.cluster.local.", dns.TypeSRV, `NOERROR
_http._tcp.db.red.svc.cluster.local. SRV 0 25 8080 10-0-0-11.db.red.svc.cluster.local.
_http._tcp.db.red.svc.cluster.local. SRV 0 25 8080 db-0.db.red.svc.cluster.local.
_http._tcp.db.red.svc.cluster.local. SRV 0 25 8080 fd00--11.db.red.svc.cluster.local.`},
		{"2.4.3 PTR of a hostname", "10.0.0.10.in-addr.arpa.", dns.TypePTR, `NOERROR
10.0.0.10.in-addr.arpa. PTR db-0.db.red.svc.cluster.local.`},
		{"2.4.3 PTR of an assigned name", "11.0.0.10.in-addr.arpa.", dns.TypePTR, `NOERROR
11.0.0.10.in-addr.arpa. PTR 10-0-0-11.db.red.svc.cluster.local.`},
		{"2.4.3 PTR of IPv6", "0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", dns.TypePTR, `NOERROR
0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. PTR db-0.db.red.svc.cluster.local.`},
		{"2.4.3 PTR of one that is not ready", "12.0.0.10.in-addr.arpa.", dns.TypePTR, "NXDOMAIN"},

		{"2.5 alias within the cluster", "alias.red.svc.cluster.local.", dns.TypeA, `NOERROR
alias.red.svc.cluster.local. CNAME web.red.svc.cluster.local.
web.red.svc.cluster.local. A 10.96.1.1`},
		{"2.5 alias itself", "alias.red.svc.cluster.local.", dns.TypeCNAME, `NOERROR
alias.red.svc.cluster.local. CNAME web.red.svc.cluster.local.`},
		{"2.5 alias out, and no way out", "outside.red.svc.cluster.local.", dns.TypeA, `NXDOMAIN
outside.red.svc.cluster.local. CNAME www.example.com.`},
		{"2.5 alias to a number", "number.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},

		{"2.1 case", "DB-0.Db.RED.Svc.Cluster.LOCAL.", dns.TypeA, `NOERROR
DB-0.Db.RED.Svc.Cluster.LOCAL. A 10.0.0.10`},
		{"2.1 case of reverse names", "10.0.0.10.IN-addr.ARPA.", dns.TypePTR, `NOERROR
10.0.0.10.IN-addr.ARPA. PTR db-0.db.red.svc.cluster.local.`},
	} {
		if diff := cmp.Diff(test.want, answered(w.ask(t, "red", test.name, test.kind))); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", test.section, test.name, diff)
		}
	}
}

// TestExtensions are names and types beyond the specification, and what is in none.
func TestExtensions(t *testing.T) {
	w := twoNetworks(t)
	for _, test := range []struct {
		name string
		kind uint16
		want string
	}{
		// What CoreDNS answers too, and programs ask for.
		{"web.red.svc.cluster.local.", dns.TypeSRV, `NOERROR
web.red.svc.cluster.local. SRV 0 100 53 web.red.svc.cluster.local.
web.red.svc.cluster.local. SRV 0 100 80 web.red.svc.cluster.local.`},
		{"db-0.db.red.svc.cluster.local.", dns.TypeSRV, `NOERROR
db-0.db.red.svc.cluster.local. SRV 0 50 8080 db-0.db.red.svc.cluster.local.`},
		{"_http._tcp.web.red.svc.cluster.local.", dns.TypeA, `NOERROR
_http._tcp.web.red.svc.cluster.local. A 10.96.1.1`},
		{"10-0-0-5.web.red.svc.cluster.local.", dns.TypeA, `NOERROR
10-0-0-5.web.red.svc.cluster.local. A 10.0.0.5`},
		{"5.0.0.10.in-addr.arpa.", dns.TypePTR, `NOERROR
5.0.0.10.in-addr.arpa. PTR 10-0-0-5.web.red.svc.cluster.local.`},
		{"10-1-2-3.red.pod.cluster.local.", dns.TypeA, `NOERROR
10-1-2-3.red.pod.cluster.local. A 10.1.2.3`},
		{"fd00--5.red.pod.cluster.local.", dns.TypeAAAA, `NOERROR
fd00--5.red.pod.cluster.local. AAAA fd00::5`},
		{"fd00--5.red.pod.cluster.local.", dns.TypeA, "NOERROR"},
		{"10-1-2-300.red.pod.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"a.10-1-2-3.red.pod.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"ns.dns.cluster.local.", dns.TypeA, "NOERROR\nns.dns.cluster.local. A 10.96.0.10"},
		{"cluster.local.", dns.TypeNS, "NOERROR\ncluster.local. NS ns.dns.cluster.local."},

		// Names that exist and have nothing of the type, and names between others, are not denied (RFC 8020).
		{"cluster.local.", dns.TypeA, "NOERROR"},
		{"svc.cluster.local.", dns.TypeA, "NOERROR"},
		{"pod.cluster.local.", dns.TypeA, "NOERROR"},
		{"dns.cluster.local.", dns.TypeA, "NOERROR"},
		{"dns-version.cluster.local.", dns.TypeA, "NOERROR"},
		{"red.svc.cluster.local.", dns.TypeA, "NOERROR"},
		{"red.pod.cluster.local.", dns.TypeA, "NOERROR"},
		{"_tcp.web.red.svc.cluster.local.", dns.TypeA, "NOERROR"},
		{"web.red.svc.cluster.local.", dns.TypeMX, "NOERROR"},
		{"web.red.svc.cluster.local.", dns.TypeTXT, "NOERROR"},
		{"web.red.svc.cluster.local.", dns.TypeHTTPS, "NOERROR"},
		{"web.red.svc.cluster.local.", dns.TypeNS, "NOERROR"},
		{"web.red.svc.cluster.local.", dns.TypeSOA, "NOERROR"},
		{"1.1.96.10.in-addr.arpa.", dns.TypeA, "NOERROR"},

		// What a search path makes of names before it finds them, or does not.
		{"web.red.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"www.example.com.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"www.example.com.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"www.example.com.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"_udp.web.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"http.tcp.web.red.svc.cluster.local.", dns.TypeSRV, "NXDOMAIN"},
		{"_._.web.red.svc.cluster.local.", dns.TypeSRV, "NXDOMAIN"},
		{"a._http._tcp.web.red.svc.cluster.local.", dns.TypeSRV, "NXDOMAIN"},
		{"*.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{`web\.red.svc.cluster.local.`, dns.TypeA, "NXDOMAIN"},
		{`we\098.red.svc.cluster.local.`, dns.TypeA, "NOERROR\nweb.red.svc.cluster.local. A 10.96.1.1"},
		{"ns2.dns.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"outside.red.svc.cluster.local.", dns.TypeCNAME, "NOERROR\noutside.red.svc.cluster.local. CNAME www.example.com."},
		{"a.outside.red.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},

		// Names that refer to the asker itself.
		{"localhost.", dns.TypeA, "NOERROR\nlocalhost. A 127.0.0.1"},
		{"a.localhost.", dns.TypeAAAA, "NOERROR\na.localhost. AAAA ::1"},
		{"a.invalid.", dns.TypeA, "NXDOMAIN"},
		{"_dns.resolver.arpa.", dns.TypeSVCB, "NXDOMAIN"},

		// Questions for everything (RFC 8482).
		{"web.red.svc.cluster.local.", dns.TypeANY, "NOERROR\nweb.red.svc.cluster.local. HINFO \"RFC8482\" \"\""},
		{"nothing.red.svc.cluster.local.", dns.TypeANY, "NXDOMAIN"},
	} {
		if diff := cmp.Diff(test.want, answered(w.ask(t, "red", test.name, test.kind))); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", test.name, dns.TypeToString[test.kind], diff)
		}
	}
}

// TestAliasesEnd: an alias of an alias of itself is a failure, and one that leads nowhere is denied with what is there.
func TestAliasesEnd(t *testing.T) {
	w := twoNetworks(t)
	if m := w.ask(t, "red", "round.red.svc.cluster.local.", dns.TypeA); m.Rcode != dns.RcodeServerFailure || len(m.Answer) > maxAliases {
		t.Errorf("aliases in a circle: %v", m)
	}
	if got, want := answered(w.ask(t, "red", "stolen.red.svc.cluster.local.", dns.TypeA)),
		"NXDOMAIN\nstolen.red.svc.cluster.local. CNAME db.blue.svc.cluster.local."; got != want {
		t.Errorf("alias into another Network: %s", got)
	}
}

// TestAdditional: SRV records come with the addresses of their targets.
func TestAdditional(t *testing.T) {
	w := twoNetworks(t)
	for name, want := range map[string][]string{
		"_http._tcp.dual.red.svc.cluster.local.": {"dual.red.svc.cluster.local. A 10.96.1.2", "dual.red.svc.cluster.local. AAAA fd00:96::2"},
		"_http._tcp.db.red.svc.cluster.local.": {
			"10-0-0-11.db.red.svc.cluster.local. A 10.0.0.11", "db-0.db.red.svc.cluster.local. A 10.0.0.10",
			"db-0.db.red.svc.cluster.local. AAAA fd00::10", "fd00--11.db.red.svc.cluster.local. AAAA fd00::11",
		},
	} {
		if diff := cmp.Diff(want, told(w.ask(t, "red", name, dns.TypeSRV).Extra)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestDenials carry the SOA by which they can be kept, under the zone that denies; answers are authoritative.
func TestDenials(t *testing.T) {
	w := twoNetworks(t)
	for name, zone := range map[string]string{
		"nothing.red.svc.cluster.local.": "cluster.local.",
		"web.red.svc.cluster.local.":     "cluster.local.",
		"www.example.com.":               ".",
		"1.2.3.4.in-addr.arpa.":          ".",
	} {
		m := w.ask(t, "red", name, dns.TypeAAAA)
		if len(m.Ns) != 1 || m.Ns[0].Header().Name != zone || !m.Authoritative || !m.RecursionAvailable {
			t.Errorf("%s: %v; want an SOA of %s", name, m, zone)
			continue
		}
		if soa := m.Ns[0].(*dns.SOA); soa.Minttl != ttl || soa.Hdr.Ttl != ttl {
			t.Errorf("%s: %v", name, soa)
		}
	}
	if m := w.ask(t, "red", "web.red.svc.cluster.local.", dns.TypeA); len(m.Ns) != 0 || !m.Authoritative {
		t.Errorf("an answer that denies: %v", m)
	}
}

// TestOtherNetworks: names and addresses of another Network do not exist, however they are asked for.
func TestOtherNetworks(t *testing.T) {
	w := twoNetworks(t)
	for _, name := range []string{
		"web.blue.svc.cluster.local.", "db.blue.svc.cluster.local.", "db-0.db.blue.svc.cluster.local.", "blue.svc.cluster.local.",
		"blue.pod.cluster.local.", "10-0-0-10.blue.pod.cluster.local.", "_http._tcp.web.blue.svc.cluster.local.",
		"1.2.96.10.in-addr.arpa.", "99.0.0.10.in-addr.arpa.",
	} {
		for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeANY, dns.TypeTXT} {
			if m := w.ask(t, "red", name, kind); m.Rcode != dns.RcodeNameError || len(m.Answer)+len(m.Extra) > 1 {
				t.Errorf("red learns of blue: %s: %v", name, m)
			}
		}
	}
	// The same question in both has an answer of each.
	for network, want := range map[string]string{"red": "db-0.db.red", "blue": "db-0.db.blue"} {
		m := w.ask(t, network, "10.0.0.10.in-addr.arpa.", dns.TypePTR)
		if len(m.Answer) != 1 || !strings.HasPrefix(m.Answer[0].(*dns.PTR).Ptr, want+".") {
			t.Errorf("in %s: %v", network, m)
		}
	}
}

// TestRotation: who can take few records of many gets others each time, and in the end all.
func TestRotation(t *testing.T) {
	w := twoNetworks(t)
	w.SetService(headless("red/big"))
	var endpoints []string
	for i := range 200 {
		endpoints = append(endpoints, fmt.Sprintf("10.0.%d.%d", i/100+1, i%100+1))
	}
	w.put("big", slice("red/big", "red", endpoints...))
	seen := map[string]bool{}
	for id := range uint16(400) {
		m := new(dns.Msg)
		m.SetQuestion("big.red.svc.cluster.local.", dns.TypeA)
		m.Id = id
		reply := w.exchange(t, "red", m, false)
		if !reply.Truncated || len(reply.Answer) < 25 {
			t.Fatalf("%d records, truncated: %v", len(reply.Answer), reply.Truncated)
		}
		for _, line := range told(reply.Answer) {
			seen[line] = true
		}
	}
	if len(seen) != 200 {
		t.Errorf("%d of 200 endpoints were told of", len(seen))
	}
	// By TCP there is room for all.
	m := new(dns.Msg)
	m.SetQuestion("big.red.svc.cluster.local.", dns.TypeA)
	reply := w.exchange(t, "red", m, true)
	if all := told(reply.Answer); reply.Truncated || len(all) != 200 || len(slices.Compact(all)) != 200 {
		t.Errorf("by TCP: %d records, truncated: %v", len(all), reply.Truncated)
	}
}
