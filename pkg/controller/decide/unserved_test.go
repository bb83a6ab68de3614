package decide_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// The porthole answers questions for names, also where the address for them lies in a service range of the Network's own, in
// which all else that nobody serves is refused.
func TestNamesAreAskedForInOwnServiceRanges(t *testing.T) {
	settings := withFaces("100.64.0.0/10")
	settings.NameServers = []netip.Addr{at("10.9.0.10"), at("192.0.2.53")}
	w := &world{cluster: newCluster(), graph: graph.New()}
	w.state = decide.NewState(settings, w.graph, w.cluster)
	home := network("default", "pods", "10.244.0.0/24")
	home.Type = model.Flat
	w.setNetwork(home)
	for services, want := range map[string]string{"10.9.0.0/24": "ip4.dst == 10.9.0.10", "10.8.0.0/24": ""} {
		red := network("red", "front", "10.0.0.0/24")
		red.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix(services)}
		w.setNetwork(red)
		w.settle()
		facts, _ := w.graph.Facts(nb.NetworkOwner("red"))
		refused, asked := "", ""
		for _, row := range facts.Rows {
			acl, is := row.(*nb.ACL)
			if !is || acl.Name == nil || *acl.Name != nb.Unserved {
				continue
			}
			if strings.Contains(acl.Match, services) {
				refused = acl.Action
			}
			if acl.Action == "pass" {
				asked = acl.Match
			}
		}
		if refused != "reject" {
			t.Errorf("what goes to %s: %q", services, refused)
		}
		if want == "" && asked != "" || !strings.Contains(asked, want) || strings.Contains(asked, "192.0.2.53") {
			t.Errorf("with Services in %s, questions pass by %q, want %q", services, asked, want)
		}
	}
}

// A node's address in a Network's own service range is the node's, as long as it has it: nothing is refused there.
func TestNodesInOwnServiceRanges(t *testing.T) {
	w, _ := peeredWorld(t)
	red := *w.networks["red"]
	red.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.8.0.0/30")}
	w.setNetwork(red)
	host := node("host", 2)
	for _, test := range []struct{ address, refused string }{
		{"192.0.2.9", "10.8.0.0/30"},
		{"10.8.0.1", "{10.8.0.0, 10.8.0.2/31}"},
		{"10.8.0.2", "{10.8.0.0/31, 10.8.0.3}"},
		{"192.0.2.9", "10.8.0.0/30"},
	} {
		host.Addresses = []netip.Addr{at(test.address)}
		w.setNode(host)
		w.settle()
		facts, _ := w.graph.Facts(nb.NetworkOwner("red"))
		found := false
		for _, row := range facts.Rows {
			acl, is := row.(*nb.ACL)
			found = found || is && acl.Action == "reject" && strings.Contains(acl.Match, "!ct.dnat && ip4.dst == "+test.refused)
		}
		if !found {
			t.Errorf("while a node has %s, datagrams to %s are not refused", test.address, test.refused)
		}
	}
}
