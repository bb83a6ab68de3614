package decide_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// withFaces are settings of a cluster whose default Network is "default".
func withFaces(ranges ...string) decide.Defaults {
	d := decide.Defaults{
		Infrastructure: []string{"kube-system", "atoll-system"}, Network: "default", Subnet: netip.MustParsePrefix("10.128.0.0/14"),
		Gateways: []netip.Prefix{netip.MustParsePrefix("198.18.0.0/29")},
	}
	for _, r := range ranges {
		d.Faces = append(d.Faces, netip.MustParsePrefix(r))
	}
	return d
}

func facedWorld(ranges ...string) *world {
	w := &world{cluster: newCluster(), graph: graph.New()}
	w.state = decide.NewState(withFaces(ranges...), w.graph, w.cluster)
	home := network("default", "pods", "10.244.0.0/24")
	home.Type = model.Flat
	w.setNetwork(home)
	w.setNetwork(network("red", "front", "10.0.0.0/24"))
	w.setNamespace("a", nil)
	return w
}

func node(name string, age int64) model.Node {
	return model.Node{Name: name, UID: "uid-" + name, Created: time.Unix(age, 0)}
}

// restart is a controller that begins with what the API server holds.
func (w *world) restart(ranges ...string) {
	w.graph = graph.New()
	w.state = decide.NewState(withFaces(ranges...), w.graph, w.cluster)
	w.replay(map[string]map[string]string{"a": nil})
}

func facesOf(a *model.Attachment) []string {
	var out []string
	if a != nil {
		for _, f := range a.Faces {
			out = append(out, f.String())
		}
	}
	return out
}

func TestNodesGetABlockAndAnAddress(t *testing.T) {
	w := facedWorld("100.64.0.0/10")
	w.setNode(node("n2", 2))
	w.setNode(node("n1", 1))
	w.settle()
	for i, name := range []string{"n1", "n2"} {
		got := w.given(name)
		want := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, byte(2 * i), 0}), 23)
		if !slices.Equal(got.Faces, []netip.Prefix{want}) {
			t.Errorf("%s has the blocks %v, want %s: older nodes come first", name, got.Faces, want)
		}
		if address := fmt.Sprintf("10.244.0.%d/24", i+2); len(got.Addresses) != 1 || got.Addresses[0].String() != address {
			t.Errorf("%s has the addresses %v, want %s", name, got.Addresses, address)
		}
		if got.NetworkUID != "uid-default" || len(got.Gateways) != 1 || got.Gateways[0].String() != "10.244.0.1" || got.MAC == "" {
			t.Errorf("%s has %+v", name, got)
		}
		facts, ok := w.graph.Facts(nb.NodeOwner(name))
		if !ok || len(facts.Rows) != 2 || len(facts.Members) != 3 {
			t.Errorf("%s wants %+v: a port and a route, each in its set, and the port among the ways into the Network", name, facts)
		}
	}
	if used := w.status("default").Subnets[0].Used; used != 2 {
		t.Errorf("%d addresses are counted as used, want the 2 nodes'", used)
	}
	w.deleteNode("n1")
	w.settle()
	if _, ok := w.graph.Facts(nb.NodeOwner("n1")); ok {
		t.Error("a node that has gone has rows")
	}
	w.setNode(node("n3", 3))
	w.setNode(node("n4", 4))
	w.settle()
	if a, b := w.given("n3").Faces, w.given("n4").Faces; len(a) != 1 || len(b) != 1 || a[0] == b[0] || a[0] == w.given("n2").Faces[0] {
		t.Errorf("blocks %v and %v", a, b)
	}
}

// TestBlocksMeanNodes: a policy's block that holds a node's address means what pods see of that node, also when the node comes,
// or gets other addresses, after the policy.
func TestBlocksMeanNodes(t *testing.T) {
	w := facedWorld("100.64.0.0/10")
	w.setNamespace("r", map[string]string{model.LabelNetwork: "red"})
	w.setNode(node("n0", 0))
	web := pod("r", "p", "")
	web.Node = "n0"
	w.setPod(web)
	p := askingNames()
	p.Isolates = [2]bool{true, false}
	p.Rules = [2][]model.Rule{
		{{Verdict: model.Allow, AnyPort: true, Peers: []model.Peer{{Block: &model.Block{CIDR: netip.MustParsePrefix("192.0.2.8/29")}}}}}, {},
	}
	w.setPolicy(p)
	means := func(when string, want bool) {
		t.Helper()
		w.settle()
		facts, ok := w.graph.Facts(compile.PolicyOwner(p.Key, "red"))
		if !ok || len(facts.Rows) == 0 {
			t.Fatalf("%s: the policy has no rows", when)
		}
		got := slices.ContainsFunc(facts.Rows, func(row nb.Row) bool { return strings.Contains(row.(*nb.ACL).Match, "10.244.0.3") })
		if got != want {
			t.Errorf("%s: the rule means the node: %v, want %v: %v", when, got, want, facts.Rows)
		}
	}
	means("no such node", false)
	host := node("n1", 1)
	host.Addresses = []netip.Addr{at("192.0.2.11")}
	w.setNode(host)
	means("a node whose address the block holds", true)
	host.Addresses = []netip.Addr{at("192.0.2.99")}
	host.Assigned = new(w.given("n1"))
	w.setNode(host)
	means("the node has another address", false)
	host.Addresses = []netip.Addr{at("192.0.2.12")}
	w.setNode(host)
	means("the node has an address in the block again", true)
	// Whoever has a node's credentials writes its Node object. An address of the default Network that it claims there is not meant,
	// also when something else of the node changes with it, so that policies look at the node again.
	forged := w.given("n1")
	forged.Addresses = []netip.Prefix{netip.MustParsePrefix("203.0.113.9/24")}
	host.Addresses, host.Assigned = []netip.Addr{at("192.0.2.11")}, &forged
	w.setNode(host)
	means("the node claims another address", true)
	facts, _ := w.graph.Facts(compile.PolicyOwner(p.Key, "red"))
	if slices.ContainsFunc(facts.Rows, func(row nb.Row) bool { return strings.Contains(row.(*nb.ACL).Match, "203.0.113.9") }) {
		t.Errorf("the rule means an address that a node only claims: %v", facts.Rows)
	}
	w.deleteNode("n1")
	means("the node has gone", false)
}

func TestPodsWaitForTheirNodesBlock(t *testing.T) {
	w := facedWorld("100.64.0.0/10")
	early := pod("a", "early", "red")
	home := pod("a", "home", "")
	w.setPod(early)
	w.setPod(home)
	w.settle()
	if w.hasPort(early) || w.attachment(early.Key) != nil {
		t.Error("a pod whose node has no faces got a port")
	}
	if a := w.attachment(home.Key); a == nil || len(a.Faces) != 0 || !w.hasPort(home) {
		t.Errorf("a pod of the default Network needs no faces, and got %+v", a)
	}
	if events := w.eventsOf("a/early"); len(events) != 0 {
		t.Errorf("a pod that waits for its node was told %v", events)
	}
	w.setNode(node("n1", 1))
	w.settle()
	if got := facesOf(w.attachment(early.Key)); !slices.Equal(got, []string{"100.64.0.1"}) || !w.hasPort(early) {
		t.Errorf("then it has the faces %v", got)
	}
}

func TestFacesStayOverARestart(t *testing.T) {
	w := facedWorld("100.64.0.0/10", "fd64:a701::/64")
	both := network("both", "front", "10.0.0.0/24")
	both.Subnets[0].CIDRs = append(both.Subnets[0].CIDRs, netip.MustParsePrefix("fd00::/64"))
	w.setNetwork(both)
	w.setNode(node("n1", 1))
	pods := []model.Pod{pod("a", "p1", "red"), pod("a", "p2", "both"), pod("a", "p3", "red")}
	for _, p := range pods {
		w.setPod(p)
	}
	w.settle()
	if got := facesOf(w.attachment(pods[1].Key)); !slices.Equal(got, []string{"100.64.0.2", "fd64:a701::1"}) {
		t.Errorf("a pod of both IP families has the faces %v", got)
	}
	w.deletePod(pods[0].Key)
	w.settle()
	before := []([]string){facesOf(w.attachment(pods[1].Key)), facesOf(w.attachment(pods[2].Key))}
	patches := w.patches
	w.restart("100.64.0.0/10", "fd64:a701::/64")
	w.settle()
	if w.patches != patches {
		t.Errorf("a restart wrote %d annotations", w.patches-patches)
	}
	after := []([]string){facesOf(w.attachment(pods[1].Key)), facesOf(w.attachment(pods[2].Key))}
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("before %v, after %v", before, after)
	}
	young := pod("a", "young", "red")
	w.setPod(young)
	w.settle()
	if got := facesOf(w.attachment(young.Key)); len(got) != 1 || slices.Contains(slices.Concat(after...), got[0]) {
		t.Errorf("a new pod has the faces %v, which may not be among %v", got, after)
	}
}

func TestANodeThatIsMadeAnewKeepsItsPodsFaces(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		w := facedWorld("100.64.0.0/10")
		w.setNode(node("n0", 1))
		w.setNode(node("n1", 2))
		p := pod("a", "p", "red")
		w.setPod(p)
		w.settle()
		before := facesOf(w.attachment(p.Key))
		w.deleteNode("n0")
		w.deleteNode("n1")
		w.settle()
		again := node("n1", 3)
		again.UID = "uid-again"
		w.setNode(again)
		if restarted {
			w.restart("100.64.0.0/10")
		}
		w.settle()
		if after := facesOf(w.attachment(p.Key)); !slices.Equal(before, after) || !w.hasPort(p) {
			t.Errorf("restarted %v: before %v, after %v", restarted, before, after)
		}
		if given := w.given("n1"); given.NodeUID != "uid-again" || len(given.Faces) != 1 ||
			!given.Faces[0].Contains(netip.MustParseAddr(before[0])) {
			t.Errorf("restarted %v: the node has %+v, which does not hold %v", restarted, given, before)
		}
	}
}

// A Node that is deleted and made anew while its pods go on has the address again that it had, unless others have needed it:
// pods' connections out of the node's Networks go by it.
func TestANodeThatIsMadeAnewKeepsItsAddress(t *testing.T) {
	for _, test := range []struct {
		name    string
		between []string
		kept    bool
	}{
		{"at once", nil, true}, {"after another has come", []string{"n5"}, true}, {
			"after others have needed it", []string{"n5", "n6", "n7", "n8"}, false,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := facedWorld("100.64.0.0/10")
			home := network("default", "pods", "10.244.0.0/29")
			home.Type = model.Flat
			w.setNetwork(home)
			w.setNode(node("n1", 1))
			w.setNode(node("n2", 2))
			w.settle()
			before := w.given("n1").Addresses
			w.deleteNode("n1")
			w.settle()
			for i, name := range test.between {
				w.setNode(node(name, int64(3+i)))
				w.settle()
			}
			again := node("n1", 9)
			again.UID = "uid-again"
			w.setNode(again)
			w.settle()
			if after := w.given("n1").Addresses; len(before) != 1 || slices.Equal(before, after) != test.kept {
				t.Errorf("before %v, after %v", before, after)
			}
		})
	}
}

func TestTwoNodesThatClaimOneBlock(t *testing.T) {
	w := facedWorld("100.64.0.0/10")
	block := []netip.Prefix{netip.MustParsePrefix("100.64.0.0/23")}
	older, younger := node("n1", 1), node("n2", 2)
	older.Assigned = &model.NodeNetwork{NodeUID: older.UID, Faces: block}
	younger.Assigned = &model.NodeNetwork{NodeUID: younger.UID, Faces: block}
	w.setNode(younger)
	w.setNode(older)
	w.settle()
	if a, b := w.given("n1").Faces, w.given("n2").Faces; !slices.Equal(a, block) || len(b) != 1 || b[0] == block[0] {
		t.Errorf("the older has %v, the younger %v", a, b)
	}
}

func TestNoBlockIsLeft(t *testing.T) {
	w := facedWorld("100.64.0.0/23")
	w.setNode(node("n1", 1))
	w.setNode(node("n2", 2))
	w.settle()
	events := w.eventsOf("node n2")
	if len(w.given("n2").Faces) != 0 || len(events) != 1 || events[0].Reason != model.ReasonNoFaces {
		t.Errorf("the second node has %v and was told %v", w.given("n2").Faces, events)
	}
}

func TestPodsDoNotTakeNodesAddresses(t *testing.T) {
	w := facedWorld("100.64.0.0/10")
	w.setNode(node("n1", 1))
	w.settle()
	held := w.given("n1").Addresses[0].Addr()
	// A subnet that changes gets new pools; a controller that starts too.
	home := network("default", "pods", "10.244.0.0/25")
	home.Type = model.Flat
	w.setNetwork(home)
	w.setPod(pod("a", "p1", ""))
	w.settle()
	w.restart("100.64.0.0/10")
	p := pod("a", "p2", "")
	w.setPod(p)
	w.settle()
	if w.given("n1").Addresses[0].Addr() != held {
		t.Errorf("the node's address changed from %s to %s", held, w.given("n1").Addresses[0])
	}
	for _, key := range []model.PodKey{{Namespace: "a", Name: "p1"}, p.Key} {
		if a := w.attachment(key); a == nil || a.Addresses[0].Addr() == held {
			t.Errorf("pod %s has %+v; %s is the node's", key, a, held)
		}
	}
}

// TestANodeKeepsItsAddressInADefaultNetworkThatGoes: there is one address fewer than nodes, and the controller starts
// while the Network is being deleted.
func TestANodeKeepsItsAddressInADefaultNetworkThatGoes(t *testing.T) {
	w := facedWorld("100.64.0.0/10")
	home := network("default", "pods", "10.244.0.0/29")
	home.Type, home.Finalized = model.Flat, true
	w.setNetwork(home)
	for i := range 4 {
		w.setPod(pod("a", fmt.Sprint("p", i), ""))
	}
	w.setNode(node("n2", 2))
	w.settle()
	w.setNode(node("n1", 1))
	home.Deleting = true
	w.setNetwork(home)
	w.settle()
	if a, b := w.given("n2").Addresses, w.given("n1").Addresses; len(a) != 1 || len(b) != 0 {
		t.Fatalf("n2 has %v, n1 %v: one address was left for n2, and none for n1", a, b)
	}
	patches := w.patches
	w.restart("100.64.0.0/10")
	w.settle()
	if w.patches != patches {
		t.Errorf("a restart wrote %d annotations: n2 has %v, n1 %v", w.patches-patches, w.given("n2").Addresses, w.given("n1").Addresses)
	}
}

func TestTheDefaultNetworkComesLater(t *testing.T) {
	w := &world{cluster: newCluster(), graph: graph.New()}
	w.state = decide.NewState(withFaces("100.64.0.0/10"), w.graph, w.cluster)
	w.setNode(node("n1", 1))
	w.settle()
	if got := w.given("n1"); len(got.Faces) != 1 || len(got.Addresses) != 0 {
		t.Errorf("without a default Network the node has %+v", got)
	}
	home := network("default", "pods", "10.244.0.0/24")
	home.Type = model.Flat
	w.setNetwork(home)
	w.settle()
	if got := w.given("n1"); len(got.Addresses) != 1 {
		t.Errorf("with it the node has %+v", got)
	}
	home.Deleting, home.Finalized = true, true
	w.setNetwork(home)
	w.settle()
	if got := w.given("n1"); len(got.Addresses) != 0 || len(got.Faces) != 1 {
		t.Errorf("after it the node has %+v", got)
	}
	if _, ok := w.graph.Facts(nb.NodeOwner("n1")); ok {
		t.Error("the node has rows in a Network that has gone")
	}
}

func TestANetworkThatOverlapsTheInfrastructureSaysSo(t *testing.T) {
	w := facedWorld("100.64.0.0/10")
	w.setNetwork(network("faces", "front", "100.64.0.0/24"))
	w.setNetwork(network("home", "front", "10.244.0.0/16"))
	w.setNetwork(network("nodes", "front", "172.18.0.0/24"))
	w.settle()
	for name, want := range map[string]string{
		"red": "", "default": "", "nodes": "",
		"faces": `100.64.0.0/24 of subnet "front" overlaps 100.64.0.0/10, the range of faces: pods reach each other by their own addresses, and not by faces there`,
		"home":  `10.244.0.0/16 of subnet "front" overlaps 10.244.0.0/24 of Network "default": pods cannot dial its pods and nodes there`,
	} {
		c := w.condition(name, model.ConditionCIDRConflict)
		if c.Status != (want != "") || !strings.HasPrefix(c.Message, want) {
			t.Errorf("Network %s: %+v, want %q", name, c, want)
		}
	}
	n := node("n1", 1)
	n.Addresses = []netip.Addr{netip.MustParseAddr("172.18.0.9"), netip.MustParseAddr("172.18.0.2")}
	w.setNode(n)
	w.settle()
	if c := w.condition("nodes", model.ConditionCIDRConflict); !strings.Contains(c.Message,
		"holds 2 addresses of nodes, such as 172.18.0.2: pods cannot dial them") {
		t.Errorf("once there is a node: %+v", c)
	}
	w.setReport(model.NodeReport{Node: "n1", Addresses: []netip.Addr{netip.MustParseAddr("172.18.0.9"), netip.MustParseAddr("172.18.0.1")}})
	w.settle()
	if c := w.condition("nodes", model.ConditionCIDRConflict); !strings.Contains(c.Message,
		"holds 3 addresses of nodes, such as 172.18.0.1: pods cannot dial them") {
		t.Errorf("once the node tells of another address: %+v", c)
	}
	w.deleteReport("n1")
	if p := w.status("nodes").Phase; p != model.Ready {
		t.Errorf("the Network is %s; it is served all the same", p)
	}
	w.deleteNode("n1")
	w.settle()
	if c := w.condition("nodes", model.ConditionCIDRConflict); c.Status {
		t.Errorf("once it has gone: %+v", c)
	}
}
