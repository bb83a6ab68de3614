package decide_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// plain is a Network that says nothing of who may attach.
func plain(name string, subnets ...string) model.Network {
	n := network(name, subnets...)
	n.Allowed = nil
	return n
}

func inNetwork(name string) map[string]string { return map[string]string{model.LabelNetwork: name} }

// attackWorld has a tenant's namespace in Network red, beside Network blue and the default one.
func attackWorld() *world {
	w := newWorld()
	w.setNamespace("team", inNetwork("red"))
	w.setNamespace("other", inNetwork("blue"))
	w.setNamespace("plain", nil)
	w.setNetwork(plain("default", "a", "10.244.0.0/24"))
	w.setNetwork(plain("red", "a", "10.0.0.0/24"))
	w.setNetwork(plain("blue", "a", "10.0.0.0/24"))
	w.settle()
	return w
}

// ways returns pods that name a Network in each possible way.
func ways(ns, name, network string) []model.Pod {
	return []model.Pod{
		pod(ns, name+"-by-label", network),
		asking(ns, name+"-by-nics", "", model.NICRequest{Network: network}),
		asking(ns, name+"-by-both", "red", model.NICRequest{Network: network}),
	}
}

// TestAPodDoesNotLeaveItsNamespacesNetworks: neither for the default Network nor for another, by no way; and whatever the
// default Network selects, as long as the namespace has a Network of its own. The control is a namespace that is granted it.
func TestAPodDoesNotLeaveItsNamespacesNetworks(t *testing.T) {
	w := attackWorld()
	open := plain("default", "a", "10.244.0.0/24")
	open.Allowed = &match.Selector{}
	for _, step := range []struct {
		what     string
		prepare  func()
		network  string
		admitted bool
	}{
		{"the default Network", func() {}, "default", false},
		{"another's", func() {}, "blue", false},
		{"its own", func() {}, "red", true},
		{"the default Network, which selects all namespaces", func() { w.setNetwork(open) }, "default", false},
		{
			"the default Network, as a tenant's that names none", func() { w.setNamespace("team", map[string]string{model.LabelTenant: "acme"}) },
			"default", false,
		},
		{"control: the default Network, which the namespace names", func() { w.setNamespace("team", inNetwork("default")) }, "default", true},
		{"control: the default Network, as a namespace without a Network", func() { w.setNamespace("team", nil) }, "default", true},
	} {
		step.prepare()
		for _, p := range ways("team", "p", step.network) {
			w.setPod(p)
			w.settle()
			if w.hasPort(p) != step.admitted || (w.attachment(p.Key) != nil) != step.admitted {
				t.Errorf("%s, %s: port %v, attachment %+v; want %v", step.what, p.Key.Name, w.hasPort(p), w.attachment(p.Key), step.admitted)
			}
			w.deletePod(p.Key)
			w.settle()
		}
	}
}

// TestATypeAndALabelAreAllItTakes: a Network of nothing but a type, and a namespace with its label.
func TestATypeAndALabelAreAllItTakes(t *testing.T) {
	w := newWorld()
	w.setNetwork(model.Network{Name: "red", UID: "uid-red", Type: model.VPC})
	w.setNamespace("team", inNetwork("red"))
	p := pod("team", "p", "")
	w.setPod(p)
	w.settle()
	if !w.hasPort(p) {
		t.Errorf("events %+v", w.eventsOf(p.Key.String()))
	}
}

// TestANamespaceThatGetsANetworkLeavesTheDefaultOne: its pods there lose their ports, and keep their addresses for when it
// may be there again.
func TestANamespaceThatGetsANetworkLeavesTheDefaultOne(t *testing.T) {
	w := attackWorld()
	p := pod("plain", "p", "")
	w.setPod(p)
	w.settle()
	before := w.attachment(p.Key)
	if !w.hasPort(p) {
		t.Fatal("a pod of a namespace without a Network has no port")
	}
	w.setNamespace("plain", inNetwork("red"))
	w.settle()
	events := w.eventsOf(p.Key.String())
	if w.hasPort(p) || len(events) != 1 || events[0].Reason != model.ReasonNamespaceNotAllowed {
		t.Errorf("port %v, events %+v", w.hasPort(p), events)
	}
	w.setNamespace("plain", nil)
	w.settle()
	if !w.hasPort(p) || w.attachment(p.Key).Addresses[0] != before.Addresses[0] {
		t.Errorf("when it may again: port %v, attachment %+v", w.hasPort(p), w.attachment(p.Key))
	}
}

// TestOneMessageForNetworksThatAreNotThereAndThatAreClosed: a user without access gets the same message for a Network that exists
// and for one that does not, except for the name in it. This also holds while the node waits for its faces. The message does not
// change when the Network is created, changed or deleted.
func TestOneMessageForNetworksThatAreNotThereAndThatAreClosed(t *testing.T) {
	for _, settings := range []struct {
		what string
		make func() *world
	}{
		{"without faces", newWorld},
		{"with faces, on a node that has none yet", func() *world { return newWorldOf(withFaces("100.64.0.0/10")) }},
	} {
		t.Run(settings.what, func(t *testing.T) {
			w := settings.make()
			w.setNamespace("team", inNetwork("mine"))
			w.setNetwork(plain("default", "a", "10.244.0.0/24"))
			w.setNetwork(plain("mine", "a", "10.0.0.0/24"))
			w.setNetwork(plain("blue", "a", "10.0.0.0/24"))
			w.setNetwork(tenantNetwork("acme", "grey", "a", "10.0.0.0/24"))
			w.settle()
			said := map[string][]model.Problem{}
			for _, network := range []string{"blue", "grey", "pink", "default"} {
				for _, p := range ways("team", network, network) {
					w.setPod(p)
					w.settle()
					way := strings.TrimPrefix(p.Key.Name, network)
					for _, e := range w.eventsOf(p.Key.String()) {
						e.Message = strings.ReplaceAll(e.Message, `"`+network+`"`, `"X"`)
						said[way] = append(said[way], e)
					}
				}
			}
			for way, events := range said {
				if n := len(events); n != 4 || len(slices.Compact(events)) != 1 || events[0].Reason != model.ReasonNetworkNotFound {
					t.Errorf("%s: %+v", way, events)
				}
			}
			// Another tenant's Network comes, changes and goes.
			pink := plain("pink", "a", "10.0.0.0/24")
			w.setNetwork(pink)
			w.settle()
			pink.Subnets = nil
			w.setNetwork(pink)
			w.settle()
			w.change(func() { delete(w.networks, "pink"); w.changes.Networks["pink"] = nil })
			w.settle()
			for _, p := range ways("team", "pink", "pink") {
				if events := w.eventsOf(p.Key.String()); len(events) != 1 {
					t.Errorf("%s was told that something changed: %+v", p.Key, events)
				}
			}
		})
	}
}

// TestWhoAskedAndWhatIsNear: the message names what asked for the Network, and the nearest name of those that the namespace
// is granted.
func TestWhoAskedAndWhatIsNear(t *testing.T) {
	tests := []struct {
		what   string
		labels map[string]string
		pod    model.Pod
		want   string
	}{
		{
			"the pod's label", inNetwork("red"), pod("team",
				"p",
				"rde"),
			`Network "rde", which the pod's label atoll.dev/network names, does not exist or does not admit namespace "team"; did you mean "red"?`,
		},
		{
			"the pod's annotation", inNetwork("red"), asking("team", "p", "red", model.NICRequest{Network: "re"}),
			`Network "re", which the pod's annotation atoll.dev/nics names, does not exist or does not admit namespace "team"; did you mean "red"?`,
		},
		{
			"the namespace's label", inNetwork("share"), pod("team",
				"p", ""),
			`Network "share", which the namespace's label atoll.dev/network names, does not exist or does not admit namespace "team"; did you mean "shared"?`,
		},
		{
			"near another's Network", inNetwork("red"), pod("team", "p",
				"bleu"), `Network "bleu", which the pod's label atoll.dev/network names, does not exist or does not admit namespace "team"`,
		},
		{
			"near nothing", inNetwork("red"), pod("team", "p", "something-else"),
			`Network "something-else", which the pod's label atoll.dev/network names, does not exist or does not admit namespace "team"`,
		},
		{
			"nothing, as a tenant's", map[string]string{model.LabelTenant: "acme"}, pod("team",
				"p", ""), `Network "acme", which the namespace's label atoll.dev/tenant names, does not exist or does not admit namespace "team"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			w := attackWorld()
			w.setNetwork(network("shared", "a", "10.0.0.0/24"))
			w.setNamespace("team", tt.labels)
			w.setPod(tt.pod)
			w.settle()
			events := w.eventsOf(tt.pod.Key.String())
			if len(events) != 1 || events[0].Reason != model.ReasonNetworkNotFound || events[0].Message != tt.want {
				t.Errorf("got  %+v\nwant %s", events, tt.want)
			}
		})
	}
}
