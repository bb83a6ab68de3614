//go:build integration

package decide_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
)

// A Network's DNS questions reach its name servers or are refused, whichever answers them. They never leave by the porthole, where
// infraAccess direct would let them reach the cluster's own DNS. They do leave when nodes answer, or without the rows that refuse.
func TestQuestionsForNamesWithPackets(t *testing.T) {
	s := newStage(t)
	client, server := s.pod("r", "client"), s.pod("r", "server")
	s.serve(server, 53, "server")
	// Whatever leaves by the porthole finds somebody at the cluster's DNS address.
	virtual := netip.MustParsePrefix("10.96.0.10/32")
	asked := netip.AddrPortFrom(virtual.Addr(), 53)
	node, err := s.chassis.Plug(t.Context(), ovn.Interface{
		Port: model.PortholePortName("red"), MAC: model.PortholeMAC, Addresses: []netip.Prefix{model.PortholeAddresses()[0], virtual},
		Gateways: []netip.Addr{model.EdgeAddresses()[0].Addr()},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.serveAt(node, asked, "the node")
	cluster := service("kube-system", "kube-dns", asked.Addr().String())
	cluster.Ports = []model.ServicePort{{Name: "dns", Protocol: model.UDP, Port: 53}, {Name: "dns-tcp", Protocol: model.TCP, Port: 53}}
	s.setNamespace("kube-system", nil)
	s.setService(cluster)
	own := service("r", "names", "10.96.0.7")
	own.Ports = cluster.Ports
	s.setService(own)
	expect := func(when, want string) {
		t.Helper()
		for _, protocol := range []string{"udp", "tcp"} {
			// A load balancer that was deleted comes back ten seconds later.
			eventually(t, want, func() string {
				answer, _, _ := strings.Cut(asks(t, client, protocol, asked.String()), " sees ")
				return answer
			})
			t.Logf("%s, by %s: %s", when, protocol, want)
		}
	}
	mode := func(mode model.DNSMode) {
		n := *s.networks["red"]
		n.Infra, n.DNS, n.DNSService = model.InfraDirect, mode, model.ServiceRef(own.Key)
		s.setNetwork(n)
	}
	behind := model.Slice{
		Key: model.SliceKey{Namespace: "r", Name: "names-1"}, UID: "uid-names-1", Service: "names",
		Ports: []model.SlicePort{{Name: "dns", Protocol: model.UDP, Port: 53}, {Name: "dns-tcp", Protocol: model.TCP, Port: 53}},
	}

	mode(model.DNSNode)
	expect("nodes answer", "the node")
	mode(model.DNSService)
	expect("a Service without endpoints answers", "connection refused")
	behind.Endpoints = []model.Endpoint{endpoint("r", "server", s.face("r", "server", false).String())}
	s.setSlice(behind)
	expect("a Service answers", "server")
	mode(model.DNSNone)
	expect("nobody answers", "connection refused")
	mode(model.DNSNode)
	expect("nodes answer again", "the node")
	mode(model.DNSNone)
	expect("nobody answers again", "connection refused")

	// The control: without the rows the questions leave.
	s.engine.stop()
	rows := strings.Fields(nbctl(t, s.central, "--bare", "--columns=_uuid", "find", "Load_Balancer", `name="red:names:udp"`))
	rows = append(rows, strings.Fields(nbctl(t, s.central, "--bare", "--columns=_uuid", "find", "Load_Balancer", `name="red:names:tcp"`))...)
	if len(rows) != 2 {
		t.Fatalf("there are %d rows that lead questions", len(rows))
	}
	for _, row := range rows {
		nbctl(t, s.central, "clear", "Load_Balancer", row, "vips")
	}
	s.sync()
	expect("nobody answers, without the rows", "the node")
}
