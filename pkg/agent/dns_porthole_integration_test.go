//go:build integration

package agent

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	atolldns "github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/model"
)

// TestPodsAskTheirPorthole: two pods of one address ask one address, through OVN, and each hears of its own Network. The
// server comes with the first pod, follows the Network, and goes with the last pod: it keeps no namespace.
func TestPodsAskTheirPorthole(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	infra := testInfrastructure()
	infra.Domain = "cluster.local"
	names, err := newNames(infra, "/etc/resolv.conf", prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	must(t, err)
	a.names = names
	t.Cleanup(names.close)
	for i, network := range []string{"red", "blue"} {
		names.directory.SetNamespace(&model.Namespace{Name: network, Labels: map[string]string{model.LabelNetwork: network}})
		key := atolldns.ServiceKey{Namespace: network, Name: "db"}
		names.directory.SetService(&atolldns.Service{ServiceKey: key, Headless: true})
		names.directory.SetSlice(atolldns.SliceKey{Namespace: network, Name: "db-x"}, &atolldns.Slice{
			Service: key, Network: network,
			Endpoints: []atolldns.Endpoint{{Address: netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", 50+i)), Ready: true}},
		})
	}
	names.directory.SetComplete()
	before := n.ours()
	red, blue := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "blue", "one", 5, 6)
	ask := func(p *testPod, transport, at, name string) (out *dns.Msg, err error) {
		err = p.inside(func() error {
			m := new(dns.Msg)
			m.SetQuestion(name, dns.TypeA)
			out, _, err = (&dns.Client{Net: transport, Timeout: 5 * time.Second}).ExchangeContext(t.Context(), m, at)
			return err
		})
		return out, err
	}
	for _, transport := range []string{"udp", "tcp"} {
		for _, at := range []string{testDNS + ":53", "[fd00:96::a]:53"} {
			for _, test := range []struct {
				pod  *testPod
				name string
				want string
			}{
				{red, "db.red.svc.cluster.local.", "10.0.0.50"},
				{red, "db.blue.svc.cluster.local.", ""},
				{blue, "db.blue.svc.cluster.local.", "10.0.0.51"},
				{blue, "db.red.svc.cluster.local.", ""},
			} {
				m, err := ask(test.pod, transport, at, test.name)
				must(t, err)
				got := ""
				if len(m.Answer) == 1 {
					got = m.Answer[0].(*dns.A).A.String()
				}
				if got != test.want || test.want == "" && m.Rcode != dns.RcodeNameError {
					t.Errorf("%s by %s at %s: %v; want %q", test.name, transport, at, m, test.want)
				}
			}
		}
	}
	closed := vpc("blue")
	closed.DNS = model.DNSNone
	a.world.setNetwork(closed)
	must(t, a.refreshPortholes(t.Context()))
	wantRefused(t, blue.inside, testDNS+":53")
	for _, p := range []*testPod{red, blue} {
		must(t, a.Del(t.Context(), p.request))
	}
	if after := n.ours(); !slices.Equal(before, after) {
		t.Errorf("left: %v\nbefore: %v", after, before)
	}
}
