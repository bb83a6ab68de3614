package dns

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const domain = "cluster.local."

// world is a Directory with the servers of some Networks, asked without sockets.
type world struct {
	*Directory
	metrics   *Metrics
	resolvers *Resolvers
	servers   map[string]*Server
}

func newWorld(t testing.TB, networks ...*model.Network) *world {
	t.Helper()
	metrics, err := NewMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		Directory: NewDirectory(domain, []netip.Addr{addr("10.96.0.10"), addr("fd00:96::a")}, testSettings()),
		metrics:   metrics, resolvers: FixedResolvers(nil), servers: map[string]*Server{},
	}
	for _, n := range networks {
		w.serve(n)
	}
	return w
}

// testSettings have the ranges of faces.
func testSettings() compatible.Settings {
	return compatible.Settings{Faces: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fd64:a701::/64")}}
}

func (w *world) serve(n *model.Network) {
	w.SetNetwork(n)
	w.servers[n.Name] = newServer(options{
		zone: w.Serve(n), policy: policyOf(n), resolvers: w.resolvers, limits: DefaultLimits(),
		counters: w.metrics.of(n.Name), log: slog.New(slog.DiscardHandler),
	})
}

// ask asks by UDP with EDNS, and brings the reply over the wire.
func (w *world) ask(t testing.TB, network, name string, kind uint16) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(name, kind)
	m.SetEdns0(4096, false)
	return w.exchange(t, network, m, false)
}

func (w *world) exchange(t testing.TB, network string, m *dns.Msg, tcp bool) *dns.Msg {
	t.Helper()
	packet, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	reply := w.raw(t, network, packet, tcp)
	if reply == nil {
		t.Fatalf("no reply to %v", m)
	}
	out := new(dns.Msg)
	if err := out.Unpack(reply); err != nil {
		t.Fatalf("reply to %v: %v", m, err)
	}
	return out
}

// raw is the reply to a packet as the loops of the server make it; nil when there is none.
func (w *world) raw(t testing.TB, network string, packet []byte, tcp bool) []byte {
	t.Helper()
	s := w.servers[network]
	q, m := readQuery(packet, tcp)
	switch {
	case q.request == nil && m == nil:
		return nil
	case m == nil:
		m = s.inTurn(t.Context(), q, netip.Addr{})
	}
	reply, err := pack(m, max(q.size, dns.MinMsgSize))
	if err != nil {
		t.Fatalf("pack %v: %v", m, err)
	}
	return reply
}

// answered is a reply in short: the code, then a line per record of the answer, sorted.
func answered(m *dns.Msg) string {
	return strings.Join(append([]string{dns.RcodeToString[m.Rcode]}, told(m.Answer)...), "\n")
}

func told(rrs []dns.RR) []string {
	var lines []string
	for _, rr := range rrs {
		h := rr.Header()
		if h.Rrtype != dns.TypeOPT {
			lines = append(lines, fmt.Sprintf("%s %s %s", h.Name, dns.TypeToString[h.Rrtype], strings.TrimPrefix(rr.String(), h.String())))
		}
	}
	slices.Sort(lines)
	return lines
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func vpc(name string) *model.Network {
	return &model.Network{
		Name: name, UID: "uid-" + name, Type: model.VPC, Egress: model.EgressNone, Infra: model.InfraServices,
		Subnets: []model.Subnet{
			{Name: "default", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("fd00::/64")}},
		},
	}
}

func namespaceIn(name, network string) *model.Namespace {
	return &model.Namespace{Name: name, Labels: map[string]string{model.LabelNetwork: network}}
}

// key reads namespace/name.
func key(s string) ServiceKey {
	namespace, name, _ := strings.Cut(s, "/")
	return ServiceKey{Namespace: namespace, Name: name}
}

// clusterIP is a Service with addresses and a TCP port named http and one without a name.
func clusterIP(name string, ips ...string) *Service {
	s := &Service{ServiceKey: key(name), Ports: []Port{{Name: "http", Protocol: "tcp", Number: 80}, {Protocol: "udp", Number: 53}}}
	for _, ip := range ips {
		s.ClusterIPs = append(s.ClusterIPs, addr(ip))
	}
	return s
}

func headless(name string) *Service {
	return &Service{ServiceKey: key(name), Headless: true, Ports: []Port{{Name: "http", Protocol: "tcp", Number: 80}}}
}

// slice has endpoints as text: an address, perhaps with a hostname before it (web-0=10.0.0.1), perhaps not ready (!), perhaps with a face
// (10.0.0.1>100.64.0.1).
func slice(service, network string, endpoints ...string) *Slice {
	s := &Slice{Service: key(service), Network: network, Ports: []Port{{Name: "http", Protocol: "tcp", Number: 8080}}}
	for _, text := range endpoints {
		e := Endpoint{Ready: !strings.HasPrefix(text, "!")}
		text = strings.TrimPrefix(text, "!")
		text, face, has := strings.Cut(text, ">")
		if has {
			e.Face = addr(face)
		}
		host, ip, named := strings.Cut(text, "=")
		if !named {
			host, ip = "", text
		}
		e.Hostname, e.Address = host, addr(ip)
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

// put adds a slice under a name of its own.
func (w *world) put(name string, s *Slice) {
	w.SetSlice(SliceKey{Namespace: s.Service.Namespace, Name: name}, s)
}

// twoNetworks have the same names and the same addresses, of different pods.
func twoNetworks(t testing.TB) *world {
	w := newWorld(t, vpc("red"), vpc("blue"))
	w.SetService(clusterIP("default/kubernetes", "10.96.0.1", "fd00:96::1"))
	w.SetNamespace(&model.Namespace{Name: "default"})
	for _, n := range []string{"red", "blue"} {
		w.SetNamespace(namespaceIn(n, n))
	}
	w.SetService(clusterIP("red/web", "10.96.1.1"))
	w.SetService(clusterIP("red/dual", "10.96.1.2", "fd00:96::2"))
	w.SetService(headless("red/db"))
	w.SetService(headless("red/empty"))
	w.SetService(&Service{ServiceKey: key("red/early"), Headless: true, PublishNotReady: true})
	w.SetService(&Service{ServiceKey: key("red/outside"), ExternalName: "www.example.com"})
	w.SetService(&Service{ServiceKey: key("red/alias"), ExternalName: "web.red.svc.cluster.local"})
	w.SetService(&Service{ServiceKey: key("red/stolen"), ExternalName: "db.blue.svc.cluster.local."})
	w.SetService(&Service{ServiceKey: key("red/round"), ExternalName: "about.red.svc.cluster.local"})
	w.SetService(&Service{ServiceKey: key("red/about"), ExternalName: "round.red.svc.cluster.local"})
	w.SetService(&Service{ServiceKey: key("red/number"), ExternalName: "192.0.2.1"})
	w.put("web-1", slice("red/web", "red", "10.0.0.5"))
	w.put("db-1", slice("red/db", "red", "db-0=10.0.0.10", "10.0.0.11", "!db-2=10.0.0.12"))
	w.put("db-2", slice("red/db", "red", "db-0=fd00::10", "fd00::11"))
	w.put("empty-1", slice("red/empty", "red", "!10.0.0.13"))
	w.put("early-1", slice("red/early", "red", "!e-0=10.0.0.14"))
	w.SetService(headless("blue/db"))
	w.SetService(clusterIP("blue/web", "10.96.2.1"))
	w.put("db-1", slice("blue/db", "blue", "db-0=10.0.0.10", "secret=10.0.0.99"))
	w.SetComplete()
	return w
}
