package decide_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
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
		"bad":   {`10.244.0.128/25 overlaps 10.244.0.0/24 of Network "default"`, "100.64.8.0/24 overlaps 100.64.0.0/10, the range of faces", "10.96.1.0/24 overlaps 10.96.0.0/16, the cluster's own range of Services"},
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
	if got := w.given("n1").Flat; !slices.Equal(got, []netip.Prefix{netip.MustParsePrefix("10.245.0.0/24"), netip.MustParsePrefix("10.246.0.0/24")}) {
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
	n.Addresses = []netip.Addr{at("10.246.0.7")}
	w.setNode(n)
	w.settle()
	if got := served("young"); got != "10.245.0.0/25" {
		t.Errorf("with a node at 10.246.0.7 it serves %q", got)
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
