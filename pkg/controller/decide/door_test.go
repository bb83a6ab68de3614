package decide_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// askingNames isolates the pods of r, but for questions to the cluster's DNS pods, which have the label app=dns.
func askingNames() model.Policy {
	peer := labelledApp("dns")
	peer.Namespace = "kube-system"
	return model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "r", Name: "names"}, UID: "uid-names", Tier: model.TierTenant,
		Subject: match.Pods{Namespace: "r"}, Isolates: [2]bool{false, true},
		Rules: [2][]model.Rule{{}, {{
			Verdict: model.Allow, Peers: []model.Peer{{Pods: &peer}}, Ports: []model.PolicyPort{{Protocol: model.UDP, First: 5353, Last: 5353}},
		}}},
	}
}

func labelledApp(app string) match.Pods {
	return match.Pods{Labels: match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{app}}}}}
}

// doors are where askingNames lets pods of red ask: address, protocol and port, in order.
func (w *world) doors() []string { return w.doorsOf(askingNames().Key, "red") }

// doorsOf are where a policy lets pods of a Network ask.
func (w *world) doorsOf(policy model.PolicyKey, network string) []string {
	w.settle()
	facts, _ := w.graph.Facts(compile.PolicyOwner(policy, network))
	var out []string
	for _, row := range facts.Rows {
		match, _, _ := strings.Cut(row.(*nb.ACL).Match, " /*")
		words := strings.Split(match, " && ")
		if address, isDoor := strings.CutPrefix(words[1], "ip4.dst == "); isDoor && !strings.Contains(address, "$") {
			out = append(out, fmt.Sprint(address, " ", words[2]))
		}
	}
	slices.Sort(out)
	return out
}

func (w *world) wantDoors(t *testing.T, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.doors()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// namedWorld is a cluster whose DNS Service leads to port 5353 of a pod that stands at a node's address.
func namedWorld(t *testing.T) *world {
	t.Helper()
	w, _, _ := servedWorld(t)
	w.state = decide.NewState(decide.Defaults{
		Network: "default", Faces: withFaces("100.64.0.0/10").Faces, DNS: model.ServiceKey{Namespace: "kube-system", Name: "kube-dns"},
	}, w.graph, w.cluster)
	w.setNamespace("kube-system", nil)
	host := node("n1", 1)
	host.Addresses = []netip.Addr{at("192.0.2.11")}
	w.setNode(host)
	dns := service("kube-system", "kube-dns", "10.96.0.10")
	dns.Ports, dns.Selector = []model.ServicePort{{Protocol: model.UDP, Port: 53}}, map[string]string{"app": "dns"}
	w.setService(dns)
	s := slice("kube-system", "kube-dns-1", "kube-dns")
	s.Ports = []model.SlicePort{{Protocol: model.UDP, Port: 5353}}
	s.Endpoints = []model.Endpoint{endpoint("kube-system", "dns", "192.0.2.11")}
	w.setSlice(s)
	n := network("red", "front", "10.0.0.0/24")
	n.DNS = model.DNSNode
	w.setNetwork(n)
	w.setPolicy(askingNames())
	w.replay(map[string]map[string]string{"r": {model.LabelNetwork: "red"}, "a": nil, "kube-system": nil})
	return w
}

const nodeDoor = "10.96.0.10 udp.dst == 53"

// Rules mean DNS pods on their nodes' own network by what their Service asks of them.
func TestRulesMeanDNSPodsOnTheirNodes(t *testing.T) {
	w := namedWorld(t)
	w.wantDoors(t, "a pod on a node", nodeDoor)
	dns := *w.services[model.ServiceKey{Namespace: "kube-system", Name: "kube-dns"}]
	dns.Selector = map[string]string{"app": "web"}
	w.setService(dns)
	w.wantDoors(t, "pods of another label")
	dns.Selector = map[string]string{"app": "dns"}
	w.setService(dns)
	w.wantDoors(t, "again", nodeDoor)
	s := slice("kube-system", "kube-dns-1", "kube-dns")
	s.Ports = []model.SlicePort{{Protocol: model.UDP, Port: 5353}}
	s.Endpoints = []model.Endpoint{endpoint("kube-system", "dns", "203.0.113.1")}
	w.setSlice(s)
	w.wantDoors(t, "a pod at an address that is no node's")
}

// In a Network of IPv6 alone the rule means the address at which its pods ask.
func TestRulesMeanTheNamesOfANetworkOfIPv6(t *testing.T) {
	w := namedWorld(t)
	six := network("red", "front", "fd00:6::/64")
	six.DNS, six.UID = model.DNSNode, "uid-six"
	w.state = decide.NewState(decide.Defaults{
		Network: "default", Faces: withFaces("100.64.0.0/10", "fd64:a701::/64").Faces, DNS: model.ServiceKey{
			Namespace: "kube-system", Name: "kube-dns",
		},
	}, w.graph, w.cluster)
	w.setNetwork(six)
	w.replay(map[string]map[string]string{"r": {model.LabelNetwork: "red"}, "a": nil, "kube-system": nil})
	w.setPod(pod("r", "q", ""))
	w.settle()
	facts, _ := w.graph.Facts(compile.PolicyOwner(askingNames().Key, "red"))
	want := "ip6.dst == " + model.NamesAddress6().String() + " && udp.dst == 53"
	if !slices.ContainsFunc(facts.Rows, func(row nb.Row) bool {
		acl, is := row.(*nb.ACL)
		return is && strings.Contains(acl.Match, want)
	}) {
		t.Errorf("no rule says %q: %v", want, facts.Rows)
	}
}

// Where a Service of the tenant answers, the rule leads to its endpoints, follows them, and ends with it.
func TestRulesFollowTheServiceThatAnswers(t *testing.T) {
	w := namedWorld(t)
	w.wantDoors(t, "before", nodeDoor)
	names := service("r", "names", "10.96.0.7")
	names.Ports = []model.ServicePort{{Name: "dns", Protocol: model.UDP, Port: 5300}, {Name: "dns-tcp", Protocol: model.TCP, Port: 5300}}
	w.setService(names)
	behind := func(pods ...string) {
		s := slice("r", "names-1", "names")
		s.Ports = []model.SlicePort{{Name: "dns", Protocol: model.UDP, Port: 5301}, {Name: "dns-tcp", Protocol: model.TCP, Port: 5302}}
		for i, p := range pods {
			s.Endpoints = append(s.Endpoints, endpoint("r", p, fmt.Sprintf("100.64.0.%d", i+1)))
		}
		w.setSlice(s)
	}
	behind("p")
	w.wantDoors(t, "a Service that does not answer", nodeDoor)
	n := *w.networks["red"]
	n.DNS, n.DNSService = model.DNSService, model.ServiceRef{Namespace: "r", Name: "names"}
	w.setNetwork(n)
	w.wantDoors(t, "it answers", "10.0.0.2 udp.dst == 5301")
	w.setPod(pod("r", "q", ""))
	w.settle()
	behind("p", "q")
	w.wantDoors(t, "two pods", "{10.0.0.2, 10.0.0.3} udp.dst == 5301")
	behind("q")
	w.wantDoors(t, "the other", "10.0.0.3 udp.dst == 5301")
	w.deletePod(model.PodKey{Namespace: "r", Name: "q"})
	w.wantDoors(t, "its pod has gone")
	behind("p")
	w.wantDoors(t, "the first again", "10.0.0.2 udp.dst == 5301")
	w.deleteService(names.Key)
	w.wantDoors(t, "the Service has gone")
	w.setService(names)
	w.wantDoors(t, "the Service is back", "10.0.0.2 udp.dst == 5301")
	n.DNS = model.DNSNone
	w.setNetwork(n)
	w.wantDoors(t, "nobody answers")
	n.DNS = model.DNSNode
	w.setNetwork(n)
	w.wantDoors(t, "the node answers", nodeDoor)
}
