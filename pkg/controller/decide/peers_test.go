package decide_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// peeredWorld is served world, in which red is compatible with blue and Service r/web leads to a pod of red.
func peeredWorld(t *testing.T) (*world, model.Pod) {
	w, p, _ := servedWorld(t)
	w.setNetwork(network("blue", "front", "10.0.0.0/24"))
	w.setNamespace("b", map[string]string{model.LabelNetwork: "blue"})
	w.says("red", model.CompatiblePeer{Network: "blue"})
	return w, p
}

// says changes whom a Network is compatible with.
func (w *world) says(name string, peers ...model.CompatiblePeer) {
	n := *w.networks[name]
	n.CompatibleWith = peers
	n.Generation++
	w.setNetwork(n)
	w.settle()
}

// elements are those of an address set of a Network, sorted.
func (w *world) elements(t *testing.T, network, selector string) string {
	t.Helper()
	facts, _ := w.graph.Facts(nb.NetworkOwner(network))
	for _, row := range facts.Rows {
		if set, ok := row.(*nb.AddressSet); ok && set.ExternalIDs[nb.KeySelector] == selector && strings.HasSuffix(set.Name, "_ip4") {
			return strings.Join(slices.Sorted(slices.Values(w.graph.Elements(nb.Set{Row: nb.RefOf(set), Column: nb.ColumnAddresses}))), " ")
		}
	}
	return "no set"
}

func TestFacesOfPeers(t *testing.T) {
	w, p := peeredWorld(t)
	face := w.attachment(p.Key).Faces[0].String()
	consumer := pod("b", "client", "")
	w.setPod(consumer)
	w.settle()
	client := w.attachment(consumer.Key).Faces[0].String()
	expect := func(what, offered, taken string) {
		t.Helper()
		if got := w.elements(t, "red", "faces offered"); got != offered {
			t.Errorf("%s: offered %q, want %q", what, got, offered)
		}
		if got := w.elements(t, "red", "faces taken"); got != taken {
			t.Errorf("%s: taken %q, want %q", what, got, taken)
		}
	}
	expect("at first", face, client)
	w.deletePod(consumer.Key)
	w.settle()
	expect("without the consumer's pod", face, "")
	w.says("red")
	expect("when it invites nobody", "no set", "no set")
	w.says("red", model.CompatiblePeer{Network: "nobody"})
	expect("when nobody comes whom it invites", face, "")
	w.says("red", model.CompatiblePeer{All: true})
	expect("again", face, "")
	blue := *w.networks["blue"]
	blue.Deleting = true
	w.setNetwork(blue)
	w.settle()
	expect("when the consumer is going", face, "")
}

func TestWhatIsOfferedOfServices(t *testing.T) {
	w, p := peeredWorld(t)
	const vip = "10.96.0.5:80"
	face, own := w.attachment(p.Key).Faces[0].String()+":8080", w.attachment(p.Key).Addresses[0].Addr().String()+":8080"
	leads := func(to string) map[string]string { return map[string]string{vip: to} }
	w.wantLBs(t, "r", "web", map[string]map[string]string{"red": leads(own), "default": leads(face), "red:offered": leads(face)})

	// A pod of the namespace in blue: there the Service leads to both, by rows of blue's own, and the shared ones lead nowhere.
	other := pod("r", "other", "blue")
	w.setPod(other)
	w.settle()
	there := w.attachment(other.Key)
	s := slice("r", "web-2", "web")
	s.Endpoints = []model.Endpoint{endpoint("r", "other", there.Faces[0].String())}
	w.setSlice(s)
	both := there.Addresses[0].Addr().String() + ":8080," + face
	w.wantLBs(t, "r", "web", map[string]map[string]string{
		"red": leads(own), "default": leads(face + "," + there.Faces[0].String() + ":8080"), "blue": leads(both),
	})
	w.deleteSlice(s.Key)
	w.wantLBs(t, "r", "web", map[string]map[string]string{"red": leads(own), "default": leads(face), "red:offered": leads(face)})

	// What is no pod's is nobody's of the Network, and what names an address that is no face leads nobody anywhere.
	s.Endpoints = []model.Endpoint{endpoint("r", "", "203.0.113.9"), endpoint("r", "p", "203.0.113.9")}
	w.setSlice(s)
	w.settle()
	if got := w.lbs("r", "web")["red:offered"]; !maps.Equal(got, leads(face)) {
		t.Errorf("offered: %v, want %v", got, leads(face))
	}
	w.deleteSlice(s.Key)

	// Nobody else's Services come along, and none without a consumer.
	w.setService(service("b", "web", "10.96.0.7"))
	w.settle()
	if got := w.lbs("b", "web"); got["blue:offered"] != nil || got["red"] != nil {
		t.Errorf("a consumer's Service is known to its provider: %v", got)
	}
	w.says("red")
	w.wantLBs(t, "r", "web", map[string]map[string]string{"red": leads(own), "default": leads(face)})
	w.says("red", model.CompatiblePeer{Network: "nobody"})
	w.wantLBs(t, "r", "web", map[string]map[string]string{"red": leads(own), "default": leads(face)})
}

// A Network says of others what is so, and what is in the way.
func TestCompatibilityIsTold(t *testing.T) {
	w, _ := peeredWorld(t)
	expect := func(network, states, reason string) {
		t.Helper()
		var got []string
		for _, c := range w.status(network).Compatibility {
			got = append(got, c.Network+" "+string(c.State))
		}
		if strings.Join(got, ", ") != states || w.condition(network, model.ConditionCompatible).Reason != reason {
			t.Errorf("%s says %q and %+v, want %q and %q", network, got, w.condition(network, model.ConditionCompatible), states, reason)
		}
	}
	expect("red", "blue Active", "Compatible")
	expect("blue", "red Active", "")
	blue := *w.networks["blue"]
	blue.Subnets = []model.Subnet{{Name: "front", CIDRs: []netip.Prefix{netip.MustParsePrefix("100.64.9.0/24")}}}
	w.setNetwork(blue)
	w.settle()
	expect("red", "blue Refused", model.ReasonAddressConflict)
	expect("blue", "red Refused", "")
	w.says("red", model.CompatiblePeer{Network: "nobody"})
	expect("red", "nobody Waiting", model.ReasonNotUsed)
	expect("blue", "", "")
}

// TestWhatIsOfferedOfGateways: the Networks that use one know its Gateways at addresses of its service ranges, and not at those
// that each Network gives for itself. They reach its own pods there, by their faces.
func TestWhatIsOfferedOfGateways(t *testing.T) {
	w, p, _ := gatewayWorld(t)
	w.setNetwork(network("blue", "front", "10.0.0.0/24"))
	w.setNamespace("b", map[string]string{model.LabelNetwork: "blue"})
	w.setGateway(tcpGateway("r", "front", "web"))
	w.setRoute(tcpRoute("r", "web", "front", "web"))
	w.settle()
	face := w.attachment(p.Key).Faces[0].String() + ":8080"
	own := w.attachment(p.Key).Addresses[0].Addr().String() + ":8080"
	w.says("red", model.CompatiblePeer{Network: "blue"})
	w.wantListens(t, front, map[string]string{"red 198.18.0.1:1000": own})

	red := *w.networks["red"]
	red.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.7.0.0/24")}
	w.setNetwork(red)
	w.settle()
	at := addressTexts(w.gatewayStatus(front).Addresses)[0]
	if !strings.HasPrefix(at, "10.7.0.") {
		t.Fatalf("the Gateway has %s", at)
	}
	w.wantListens(t, front, map[string]string{"red " + at + ":1000": own, "red:ranges " + at + ":1000": face})

	// A pod of the namespace in blue is nothing that red offers.
	other := pod("r", "other", "blue")
	w.setPod(other)
	w.settle()
	s := slice("r", "web-2", "web")
	s.Endpoints = []model.Endpoint{endpoint("r", "other", w.attachment(other.Key).Faces[0].String())}
	w.setSlice(s)
	w.wantListens(t, front, map[string]string{"red " + at + ":1000": own, "red:ranges " + at + ":1000": face})

	// Who is joined to it is led to own addresses.
	w.setNetwork(network("cyan", "front", "10.9.0.0/24"))
	w.says("red", model.CompatiblePeer{Network: "blue"}, model.CompatiblePeer{Network: "cyan", Mode: model.Routed})
	w.wantListens(t, front, map[string]string{
		"red " + at + ":1000": own, "red:ranges " + at + ":1000": face, "red:joined " + at + ":1000": own,
	})
	w.says("red", model.CompatiblePeer{Network: "blue"})
	w.wantListens(t, front, map[string]string{"red " + at + ":1000": own, "red:ranges " + at + ":1000": face})

	// Without a pod it refuses, and without a consumer, or a Gateway, there is nothing.
	w.deletePod(p.Key)
	w.wantListens(t, front, map[string]string{"red " + at + ":1000": "", "red:ranges " + at + ":1000": ""})
	w.says("red")
	w.wantListens(t, front, map[string]string{"red " + at + ":1000": ""})
	w.says("red", model.CompatiblePeer{Network: "blue"})
	w.wantListens(t, front, map[string]string{"red " + at + ":1000": "", "red:ranges " + at + ":1000": ""})
	w.deleteGateway(front)
	w.wantListens(t, front, map[string]string{})
}

// A consumer of another tenant is led to a Service by its ClusterIP, and by its own address where it names the range: in the rows
// that all consumers share, and in those of its own. An address that is a node's is nobody's Service.
func TestWhoIsLedByServiceRanges(t *testing.T) {
	w, p := peeredWorld(t)
	red := *w.networks["red"]
	red.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	w.setNetwork(red)
	web := service("r", "web", "10.96.0.5")
	web.Wanted = []netip.Addr{netip.MustParseAddr("203.0.113.10")}
	w.setService(web)
	blue := *w.networks["blue"]
	blue.Tenant, blue.Uses = "victim", []string{"red"}
	w.setNamespace("b", map[string]string{model.LabelNetwork: "blue", model.LabelTenant: "victim"})
	w.setNetwork(blue)
	// hangs are the groups of load balancers that blue's switch holds of red.
	hangs := func() string {
		facts, _ := w.graph.Facts(nb.NetworkOwner("blue"))
		var out []string
		for _, m := range facts.Members {
			for _, way := range []compile.Layout{
				compile.Offered(compile.Layout{Name: "red", UID: red.UID}), compile.Ranged(compile.Layout{Name: "red", UID: red.UID}),
			} {
				if m.Value == nb.UUID(nb.TableLoadBalancerGroup, way.UID) {
					out = append(out, way.Name)
				}
			}
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	face, own := w.attachment(p.Key).Faces[0].String()+":8080", w.attachment(p.Key).Addresses[0].Addr().String()+":8080"
	expect := func(when, groups, vip string) {
		t.Helper()
		w.settle()
		lbs := w.lbs("r", "web")
		if got := hangs(); got != groups || lbs["red:offered"]["203.0.113.10:80"] != "" || lbs["red:offered"]["10.96.0.5:80"] != face ||
			lbs["red:ranges"]["203.0.113.10:80"] != vip || lbs["red:ranges"]["10.96.0.5:80"] != "" {
			t.Errorf("%s: blue has %q, want %q; the Service leads by %v", when, got, groups, lbs)
		}
		if lbs["red"]["203.0.113.10:80"] != own {
			t.Errorf("%s: in its own Network the Service leads by %v", when, lbs["red"])
		}
	}
	expect("used", "red:offered", face)
	blue.UsesServiceCIDRs = map[string][]netip.Prefix{"red": red.ServiceCIDRs}
	w.setNetwork(blue)
	expect("named", "red:offered red:ranges", face)
	host := node("host", 1)
	host.Addresses = web.Wanted
	w.setNode(host)
	expect("a node has it", "red:offered red:ranges", "")
	host.Addresses = nil
	w.setNode(host)
	expect("no node has it", "red:offered red:ranges", face)
	blue.UsesServiceCIDRs = nil
	w.setNetwork(blue)
	expect("named no more", "red:offered", face)

	// With an endpoint of its own it has rows of its own.
	other := pod("r", "other", "blue")
	w.setNamespace("r", map[string]string{model.LabelNetwork: "red", model.LabelTenant: "victim"})
	w.setPod(other)
	w.settle()
	s := slice("r", "web-2", "web")
	s.Endpoints = []model.Endpoint{endpoint("r", "other", w.attachment(other.Key).Faces[0].String())}
	w.setSlice(s)
	w.settle()
	if got := w.lbs("r", "web")["blue"]; got["203.0.113.10:80"] != "" || got["10.96.0.5:80"] == "" {
		t.Errorf("by rows of its own blue, which names no range, is led by %v", got)
	}
	blue.UsesServiceCIDRs = map[string][]netip.Prefix{"red": red.ServiceCIDRs}
	w.setNetwork(blue)
	w.settle()
	if got := w.lbs("r", "web")["blue"]; got["203.0.113.10:80"] == "" || got["203.0.113.10:80"] != got["10.96.0.5:80"] {
		t.Errorf("by rows of its own blue, which names the range, is led by %v", got)
	}
}

// A provider of whose service ranges none is served has no row about them, and a consumer's switches wait for none: who waits for
// what another does not have is never as its owner wants it.
func TestConsumersWaitForNothingOfRangesThatAreNotServed(t *testing.T) {
	w, _ := peeredWorld(t)
	red := *w.networks["red"]
	red.Subnets = append(slices.Clone(red.Subnets), model.Subnet{Name: "back", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.7.0.0/24")}})
	for _, test := range []struct {
		services string
		held     bool
	}{{"10.7.0.0/24", false}, {"10.8.0.0/24", true}, {"10.7.0.0/24", false}} {
		red.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix(test.services)}
		w.setNetwork(red)
		w.settle()
		facts, _ := w.graph.Facts(nb.NetworkOwner("blue"))
		held := false
		for _, m := range facts.Members {
			if m.Column != nb.ColumnACLs {
				continue
			}
			row, there := w.graph.Row(m.Ref())
			if !there {
				t.Errorf("%s: blue waits for %s", test.services, m.Value)
				continue
			}
			acl, _ := row.(*nb.ACL)
			held = held || acl != nil && acl.Name != nil && *acl.Name == nb.Unserved && strings.Contains(acl.Match, test.services)
		}
		if held != test.held {
			t.Errorf("%s: blue holds red's row about it: %t", test.services, held)
		}
	}
}

// A provider that goes at once, past its finalizer, in the moment in which a node gets another address, takes nothing along.
func TestAProviderThatGoesWhenANodeMoves(t *testing.T) {
	w, _ := peeredWorld(t)
	red := *w.networks["red"]
	red.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.8.0.0/24")}
	w.setNetwork(red)
	w.settle()
	host := node("host", 2)
	host.Addresses = []netip.Addr{netip.MustParseAddr("10.8.0.9")}
	w.setNode(host)
	w.change(func() { delete(w.networks, "red"); w.changes.Networks["red"] = nil })
	w.settle()
	facts, _ := w.graph.Facts(nb.NetworkOwner("blue"))
	for _, m := range facts.Members {
		if m.Column == nb.ColumnACLs || m.Column == nb.ColumnLoadBalancerGroups {
			if _, there := w.graph.Row(m.Ref()); !there {
				t.Errorf("blue holds %s of red, which has gone", m.Value)
			}
		}
	}
}

// A Service leads joined consumers to its pods' own addresses. A joined Network with endpoints of its own gets its own rows for both.
func TestWhatIsOfferedToJoined(t *testing.T) {
	w, p, _ := servedWorld(t)
	w.setNetwork(network("blue", "front", "10.9.0.0/24"))
	w.setNamespace("b", map[string]string{model.LabelNetwork: "blue"})
	w.says("red", model.CompatiblePeer{Network: "blue", Mode: model.Routed})
	const vip = "10.96.0.5:80"
	face, own := w.attachment(p.Key).Faces[0].String()+":8080", w.attachment(p.Key).Addresses[0].Addr().String()+":8080"
	leads := func(to string) map[string]string { return map[string]string{vip: to} }
	w.wantLBs(t, "r", "web", map[string]map[string]string{
		"red": leads(own), "default": leads(face), "red:offered": leads(face), "red:joined": leads(own),
	})
	other := pod("r", "other", "blue")
	w.setPod(other)
	w.settle()
	there := w.attachment(other.Key)
	s := slice("r", "web-2", "web")
	s.Endpoints = []model.Endpoint{endpoint("r", "other", there.Faces[0].String())}
	w.setSlice(s)
	// In order of the addresses.
	both := own + "," + there.Addresses[0].Addr().String() + ":8080"
	w.wantLBs(t, "r", "web", map[string]map[string]string{
		"red": leads(own), "default": leads(face + "," + there.Faces[0].String() + ":8080"), "blue": leads(both),
	})
	w.deleteSlice(s.Key)
	w.says("red", model.CompatiblePeer{Network: "blue"})
	w.wantLBs(t, "r", "web", map[string]map[string]string{"red": leads(own), "default": leads(face), "red:offered": leads(face)})
}

// TestAThirdNetworksPods: a Service whose pods are in a Network that its own reaches leads a consumer there if that one reaches
// it, too, and nobody else; and no switch has its address twice.
func TestAThirdNetworksPods(t *testing.T) {
	w, _ := peeredWorld(t)
	w.setNetwork(network("green", "front", "10.0.0.0/24"))
	w.setNetwork(network("black", "front", "10.0.0.0/24"))
	w.says("red", model.CompatiblePeer{Network: "blue"}, model.CompatiblePeer{Network: "black"})
	w.says("green", model.CompatiblePeer{Network: "red"})
	third := pod("r", "third", "green")
	w.setPod(third)
	w.settle()
	face, own := w.attachment(third.Key).Faces[0].String()+":8080", w.attachment(third.Key).Addresses[0].Addr().String()+":8080"
	s := slice("r", "web-1", "web")
	s.Endpoints = []model.Endpoint{endpoint("r", "third", w.attachment(third.Key).Faces[0].String())}
	w.setSlice(s)
	leads := func(to string) map[string]string { return map[string]string{"10.96.0.5:80": to} }
	w.wantLBs(t, "r", "web", map[string]map[string]string{
		"red": leads(face), "green": leads(own), "default": leads(face), "red:offered": leads(""),
	})
	w.says("green", model.CompatiblePeer{Network: "red"}, model.CompatiblePeer{Network: "blue"})
	w.wantLBs(t, "r", "web", map[string]map[string]string{
		"red": leads(face), "green": leads(own), "default": leads(face), "blue": leads(face), "black": leads(""),
	})
	w.says("green", model.CompatiblePeer{Network: "red"})
	w.wantLBs(t, "r", "web", map[string]map[string]string{
		"red": leads(face), "green": leads(own), "default": leads(face), "red:offered": leads(""),
	})
}
