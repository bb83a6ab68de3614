package decide_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

func flat(name string, age int64, subnets ...string) model.Network {
	n := network(name, subnets...)
	n.Type, n.Created = model.Flat, time.Unix(age, 0)
	return n
}

// Flat Networks share one space: of two that overlap the older one is served, and what overlaps faces, nodes, Services or the
// default Network is not. The others have no faces, and hang on the default Network's router.
func TestFlatNetworksShareASpace(t *testing.T) {
	settings := withFaces("100.64.0.0/10")
	settings.Services = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	w := newWorldOf(settings)
	w.setNetwork(flat("default", 1, "pods", "10.244.0.0/24"))
	w.setNode(node("n1", 1))
	w.setNetwork(flat("young", 9, "a", "10.245.0.0/25", "b", "10.246.0.0/24"))
	w.setNetwork(flat("old", 5, "a", "10.245.0.0/24"))
	w.setNetwork(flat("bad", 7, "home", "10.244.0.128/25", "faces", "100.64.8.0/24", "services", "10.96.1.0/24"))
	w.setNamespace("w", map[string]string{model.LabelNetwork: "old"})
	w.setPod(pod("w", "a", ""))
	w.settle()
	served := func(name string) string {
		var out []string
		for _, s := range w.status(name).Subnets {
			out = append(out, s.CIDR)
		}
		return strings.Join(out, " ")
	}
	for name, want := range map[string]string{"old": "10.245.0.0/24", "young": "10.246.0.0/24", "bad": ""} {
		if got := served(name); got != want {
			t.Errorf("%s serves %q, want %q", name, got, want)
		}
	}
	for name, words := range map[string][]string{
		"young": {`10.245.0.0/25 overlaps 10.245.0.0/24 of Network "old"`},
		"bad": {
			`10.244.0.128/25 overlaps 10.244.0.0/24 of Network "default"`, "100.64.8.0/24 overlaps 100.64.0.0/10, the range of faces",
			"10.96.1.0/24 overlaps 10.96.0.0/16, the cluster's own range of Services",
		},
	} {
		i := slices.IndexFunc(w.status(name).Conditions, func(c model.Condition) bool { return c.Type == model.ConditionSubnetsValid })
		c := w.status(name).Conditions[i]
		for _, word := range words {
			if c.Status || c.Reason != model.ReasonSubnetsOverlap || !strings.Contains(c.Message, word) {
				t.Errorf("%s says %+v, want %q", name, c, word)
			}
		}
	}
	if a := w.attachment(model.PodKey{Namespace: "w", Name: "a"}); a == nil || len(a.Faces) > 0 {
		t.Errorf("a pod of a flat Network has %+v, want no faces", a)
	}
	if got := w.given("n1").Flat; !slices.Equal(got, []netip.Prefix{
		netip.MustParsePrefix("10.245.0.0/24"), netip.MustParsePrefix("10.246.0.0/24"),
	}) {
		t.Errorf("the node is told of %v", got)
	}
	facts, _ := w.graph.Facts(nb.NetworkOwner("old"))
	for _, row := range facts.Rows {
		switch row.Table() {
		case nb.TableLogicalRouter, nb.TableLoadBalancer, nb.TableLoadBalancerGroup, nb.TableStaticRoute:
			t.Errorf("a flat Network has a row of %s", row.Table())
		}
	}

	w.change(func() { delete(w.networks, "old"); w.changes.Networks["old"] = nil })
	w.deletePod(model.PodKey{Namespace: "w", Name: "a"})
	w.settle()
	if got := served("young"); got != "10.245.0.0/25 10.246.0.0/24" {
		t.Errorf("after the older Network has gone, the younger serves %q", got)
	}
	n := node("n2", 2)
	n.Addresses = []netip.Addr{at("10.247.0.7")}
	w.setNode(n)
	w.setNetwork(flat("late", 11, "a", "10.247.0.0/24", "b", "10.248.0.0/24"))
	w.settle()
	if got := served("late"); got != "10.248.0.0/24" {
		t.Errorf("with a node at 10.247.0.7 a new Network serves %q", got)
	}
}

// TestANodesClaimTakesNoFlatNetwork: a kubelet writes its Node's addresses. One in a range that a flat Network serves takes
// nothing from its pods, and no new pod gets it.
func TestANodesClaimTakesNoFlatNetwork(t *testing.T) {
	w := newWorldOf(withFaces("100.64.0.0/10"))
	w.setNetwork(flat("default", 1, "pods", "10.244.0.0/24"))
	w.setNetwork(flat("team", 5, "old", "10.245.0.0/24", "new", "10.246.0.0/24"))
	w.setNetwork(flat("tiny", 6, "a", "10.248.0.0/30"))
	w.setNode(node("n1", 1))
	w.setNamespace("team", map[string]string{model.LabelNetwork: "team"})
	w.setNamespace("tiny", map[string]string{model.LabelNetwork: "tiny"})
	first := pod("team", "first", "")
	w.setPod(first)
	w.settle()
	before := *w.attachment(first.Key)
	claims := func(addresses ...netip.Addr) {
		n := node("n2", 2)
		n.Addresses = addresses
		w.setNode(n)
		w.settle()
	}
	check := func(when string) {
		t.Helper()
		if c := w.condition("team", model.ConditionSubnetsValid); !c.Status && c.Reason != model.ReasonSubnetInUse {
			t.Errorf("%s: %+v", when, c)
		}
		if a := w.attachment(first.Key); !w.hasPort(first) || a == nil || a.Addresses[0] != before.Addresses[0] {
			t.Errorf("%s: the pod has a port: %t, and %+v", when, w.hasPort(first), a)
		}
		if c := w.condition("team", model.ConditionCIDRConflict); !c.Status || !strings.Contains(c.Message, "is served all the same") {
			t.Errorf("%s: %+v", when, c)
		}
	}
	next := before.Addresses[0].Addr().Next()
	claims(before.Addresses[0].Addr(), next, at("10.248.0.2"))
	check("with a node there")
	second, waits := pod("team", "second", ""), pod("tiny", "waits", "")
	w.setPod(second)
	w.setPod(waits)
	w.settle()
	if a := w.attachment(second.Key); a == nil || a.Addresses[0].Addr() != next.Next() {
		t.Errorf("a new pod has %+v, want the address after that of the node, %s", a, next)
	}
	if a := w.attachment(waits.Key); a != nil {
		t.Errorf("a new pod has %+v, where a node has the only address", a)
	}
	w.restart("100.64.0.0/10")
	w.setNamespace("team", map[string]string{model.LabelNetwork: "team"})
	w.setNamespace("tiny", map[string]string{model.LabelNetwork: "tiny"})
	w.settle()
	check("after a restart")
	w.subnetsNow(t, "team", "new", "10.246.0.0/24")
	check("with its subnet not listed any more")

	claims()
	if a := w.attachment(waits.Key); a == nil || a.Addresses[0].Addr() != at("10.248.0.2") {
		t.Errorf("a pod that waits for the node's address has %+v after the claim", a)
	}
	if c := w.condition("team", model.ConditionCIDRConflict); c.Status {
		t.Errorf("after the claim: %+v", c)
	}
}

// What a Service of a flat Network leads to is in the default Network's load balancers, and no longer once the Network has gone.
func TestServicesLeaveWithTheirFlatNetwork(t *testing.T) {
	w := newWorldOf(withFaces("100.64.0.0/10"))
	w.setNetwork(flat("default", 1, "pods", "10.244.0.0/24"))
	w.setNetwork(flat("old", 5, "a", "10.245.0.0/24"))
	w.setNode(node("n1", 1))
	w.setNamespace("x", map[string]string{model.LabelNetwork: "old"})
	w.setService(service("x", "web", "10.96.0.9"))
	backend := slice("x", "web-1", "web")
	backend.Endpoints = []model.Endpoint{endpoint("x", "", "203.0.113.9")}
	w.setSlice(backend)
	w.settle()
	leads := func() bool {
		return slices.ContainsFunc(refs(w.graph), func(line string) bool { return strings.Contains(line, "203.0.113.9") })
	}
	if !leads() {
		t.Fatal("the Service leads nowhere; this test shows nothing")
	}
	w.change(func() { delete(w.networks, "old"); w.changes.Networks["old"] = nil })
	w.settle()
	// Connections that there are go on for a while.
	w.turn(time.Unix(1e6, 0))
	if leads() {
		t.Error("the Service of a Network that has gone leads on")
	}
}
