package decide_test

import (
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// subnetsNow changes what a Network lists, as its owner does.
func (w *world) subnetsNow(t *testing.T, name string, subnets ...string) {
	t.Helper()
	w.mu.Lock()
	n := *w.networks[name]
	w.mu.Unlock()
	n.Subnets, n.Generation = network(name, subnets...).Subnets, n.Generation+1
	w.setNetwork(n)
	w.settle()
}

func (w *world) switches(name string) string {
	facts, _ := w.graph.Facts(nb.NetworkOwner(name))
	var out []string
	for _, row := range facts.Rows {
		if s, ok := row.(*nb.LogicalSwitch); ok && strings.Contains(s.Name, "/") {
			out = append(out, s.Name)
		}
	}
	return strings.Join(out, " ")
}

// TestASubnetInUseIsServed: a subnet that is taken out of a Network while pods have addresses of it is served until the last of
// them has gone, over a restart too; the Network says so and names them, and nobody else gets addresses there.
func TestASubnetInUseIsServed(t *testing.T) {
	w := facedWorld("100.64.0.0/10")
	w.setNode(node("n1", 1))
	w.setNetwork(network("red", "front", "10.0.0.0/24", "back", "10.0.1.0/24"))
	p := asking("a", "old", "red", model.NICRequest{Subnet: "back"})
	w.setPod(p)
	w.settle()
	before := *w.attachment(p.Key)

	check := func(t *testing.T) {
		t.Helper()
		if !w.hasPort(p) || w.attachment(p.Key).Addresses[0] != before.Addresses[0] {
			t.Errorf("the pod has a port: %t, and %+v; it had %+v", w.hasPort(p), w.attachment(p.Key), before)
		}
		if c := w.condition("red", model.ConditionSubnetsValid); c.Status || c.Reason != model.ReasonSubnetInUse ||
			!strings.Contains(c.Message, "a/old") || w.status("red").Phase != model.Degraded {
			t.Errorf("%s, %+v", w.status("red").Phase, c)
		}
		if got := w.switches("red"); got != "red/front red/back" {
			t.Errorf("the switches are %s", got)
		}
	}
	w.subnetsNow(t, "red", "front", "10.0.0.0/24")
	check(t)
	late := asking("a", "late", "red", model.NICRequest{Subnet: "back"})
	w.setPod(late)
	byAddress := asking("a", "by-address", "red", model.NICRequest{IP: at("10.0.1.77")})
	w.setPod(byAddress)
	w.settle()
	if w.hasPort(late) || w.hasPort(byAddress) {
		t.Error("a new pod gets an address of the subnet")
	}
	w.restart("100.64.0.0/10")
	w.settle()
	check(t)

	// It is listed again: all is as before.
	w.subnetsNow(t, "red", "front", "10.0.0.0/24", "back", "10.0.1.0/24")
	if c := w.condition("red", model.ConditionSubnetsValid); !c.Status || !w.hasPort(p) || !w.hasPort(late) {
		t.Errorf("listed again: %+v, port %t", c, w.hasPort(p))
	}
	w.deletePod(late.Key)
	w.deletePod(byAddress.Key)
	w.subnetsNow(t, "red", "front", "10.0.0.0/24")
	check(t)
	w.deletePod(p.Key)
	w.settle()
	if got, c := w.switches("red"), w.condition("red", model.ConditionSubnetsValid); got != "red/front" || !c.Status ||
		w.status("red").Phase != model.Ready || len(w.status("red").Subnets) != 1 {
		t.Errorf("after its last pod: switches %s, %s, %+v, %+v", got, w.status("red").Phase, c, w.status("red").Subnets)
	}
}

// TestAListedSubnetComesBeforeAFormerOne: what the owner lists is served, and pods of a subnet whose addresses it has lose their port.
func TestAListedSubnetComesBeforeAFormerOne(t *testing.T) {
	for name, now := range map[string][]string{
		"overlapping":       {"other", "10.0.1.0/25"},
		"of the same name":  {"back", "10.9.0.0/24"},
		"one that is a lie": {"front", "10.0.0.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.setNamespace("team", nil)
			w.setNetwork(network("red", "back", "10.0.1.0/24"))
			p := pod("team", "old", "red")
			w.setPod(p)
			w.settle()
			if name == "one that is a lie" {
				// Nobody served it: an annotation alone makes no subnet.
				w.change(func() {
					n, forged := *w.networks["red"], *w.pods[p.Key]
					n.Served, n.Subnets = nil, network("red", now...).Subnets
					forged.Assigned = []model.Attachment{forged.Assigned[0]}
					forged.Assigned[0].Subnet = "mine"
					w.networks["red"], w.changes.Networks["red"] = &n, &n
					w.pods[p.Key], w.changes.Pods[p.Key] = &forged, &forged
				})
				w.graph = graph.New()
				w.state = decide.NewState(defaults, w.graph, w.cluster)
				w.replay(map[string]map[string]string{"team": nil})
			}
			w.subnetsNow(t, "red", now...)
			if w.hasPort(p) || w.switches("red") != "red/"+now[0] {
				t.Errorf("port %t, switches %s", w.hasPort(p), w.switches("red"))
			}
		})
	}
}

// TestASubnetInUseOfAFlatNetworkIsServed: as in any other Network, also in the default one, where the nodes' own addresses move
// to what is listed; and what any flat Network lists comes before what another one does not list any more.
func TestASubnetInUseOfAFlatNetworkIsServed(t *testing.T) {
	for _, name := range []string{"default", "beside"} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(withFaces("100.64.0.0/10"))
			w.setNetwork(flat("default", 1, "old", "10.244.0.0/24", "new", "10.245.0.0/24"))
			w.setNetwork(flat("beside", 2, "old", "10.246.0.0/24", "new", "10.247.0.0/24"))
			w.setNode(node("n1", 1))
			w.setNamespace("team", map[string]string{model.LabelNetwork: name})
			p := pod("team", "old", name)
			w.setPod(p)
			w.settle()
			before := *w.attachment(p.Key)
			left := map[string]string{"default": "10.245.0.0/24", "beside": "10.247.0.0/24"}[name]
			w.subnetsNow(t, name, "new", left)
			check := func(when string) {
				t.Helper()
				if c := w.condition(name, model.ConditionSubnetsValid); c.Reason != model.ReasonSubnetInUse ||
					!strings.Contains(c.Message, "team/old") {
					t.Errorf("%s: %+v", when, c)
				}
				if !w.hasPort(p) || w.attachment(p.Key).Addresses[0] != before.Addresses[0] {
					t.Errorf("%s: the pod has a port: %t, and %+v", when, w.hasPort(p), w.attachment(p.Key))
				}
				want := map[string]string{"default": "10.245.0.", "beside": "10.244.0."}[name]
				if given := w.given("n1"); len(given.Addresses) != 1 || !strings.HasPrefix(given.Addresses[0].String(), want) {
					t.Errorf("%s: the node has %v, want an address in %s0/24", when, given.Addresses, want)
				}
			}
			check("at once")
			w.restart("100.64.0.0/10")
			w.setNamespace("team", map[string]string{model.LabelNetwork: name})
			w.settle()
			check("after a restart")
			late := pod("team", "late", name)
			w.setPod(late)
			w.settle()
			if a := w.attachment(late.Key); a == nil || a.Subnet != "new" {
				t.Errorf("a new pod gets %+v", a)
			}
			w.deletePod(late.Key)
			w.deletePod(p.Key)
			w.settle()
			if c := w.condition(name, model.ConditionSubnetsValid); !c.Status || len(w.status(name).Subnets) != 1 {
				t.Errorf("after its last pod: %+v, %+v", c, w.status(name).Subnets)
			}
		})
	}
	t.Run("another lists it", func(t *testing.T) {
		w := newWorldOf(withFaces("100.64.0.0/10"))
		w.setNetwork(flat("default", 1, "a", "10.244.0.0/24"))
		w.setNetwork(flat("older", 2, "old", "10.246.0.0/24", "new", "10.247.0.0/24"))
		w.setNode(node("n1", 1))
		w.setNamespace("team", map[string]string{model.LabelNetwork: "older"})
		p := pod("team", "old", "older")
		w.setPod(p)
		w.settle()
		w.subnetsNow(t, "older", "new", "10.247.0.0/24")
		w.setNetwork(flat("younger", 3, "mine", "10.246.0.0/25"))
		w.settle()
		if w.hasPort(p) || w.status("younger").Phase != model.Ready {
			t.Errorf("the pod has a port: %t; who lists its addresses is %s", w.hasPort(p), w.status("younger").Phase)
		}
	})
}
