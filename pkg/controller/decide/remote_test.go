package decide_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// remoteWorld is a world of three Networks with the same addresses, red, blue and green of the namespaces r, b and g, with a pod web and a
// pod db in each. blue reaches red.
func remoteWorld(t *testing.T) *world {
	t.Helper()
	w := &world{cluster: newCluster(), settings: withFaces("100.64.0.0/10")}
	w.begin(w.cluster)
	home := network("default", "pods", "10.244.0.0/24")
	home.Type = model.Flat
	w.setNetwork(home)
	w.setNode(node("n1", 1))
	for ns, name := range map[string]string{"r": "red", "b": "blue", "g": "green"} {
		w.setNetwork(network(name, "front", "10.0.0.0/24"))
		w.setNamespace(ns, map[string]string{model.LabelNetwork: name})
	}
	w.settle()
	for _, ns := range []string{"r", "b", "g"} {
		for i, app := range []string{"web", "db"} {
			p := pod(ns, app, "")
			p.Labels = map[string]string{"app": app}
			p.Ports = []model.PodPort{{Name: "http", Protocol: model.TCP, Port: uint16(80 + i)}}
			w.setPod(p)
			w.settle()
		}
	}
	w.says("red", model.CompatiblePeer{Network: "blue"})
	return w
}

// appOf selects pods of an application: of all namespaces, or of one.
func appOf(namespace, name string) *match.Pods {
	return &match.Pods{
		Namespace: namespace, Labels: match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{name}}}},
	}
}

// meets is a policy of a namespace whose pods receive from some pods and send to some, and nothing else.
func meets(ns string, peer *match.Pods, ports ...model.PolicyPort) model.Policy {
	rules := []model.Rule{{Verdict: model.Allow, AnyPort: len(ports) == 0, Ports: ports, Peers: []model.Peer{{Pods: peer}}}}
	return model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: ns, Name: "meets"}, UID: "uid-meets-" + ns, Tier: model.TierTenant,
		Subject: match.Pods{Namespace: ns}, Isolates: [2]bool{true, true}, Rules: [2][]model.Rule{rules, rules},
	}
}

// remote are the pods whose faces of IPv4 are in the sets that policies of a Network have of pods of others, by the set's words.
func (w *world) remote(network string) map[string]string {
	out := map[string]string{}
	for _, ref := range w.graph.Refs() {
		row, _ := w.graph.Row(ref)
		set, ok := row.(*nb.AddressSet)
		if !ok || set.ExternalIDs[nb.KeyNetwork] != network || !strings.HasPrefix(set.ExternalIDs[nb.KeySelector], "remote ") ||
			!strings.HasSuffix(set.Name, "_ip4") {
			continue
		}
		var names []string
		for _, a := range w.graph.Elements(nb.Set{Row: ref, Column: nb.ColumnAddresses}) {
			names = append(names, w.holder(netip.MustParseAddr(a)))
		}
		slices.Sort(names)
		out[set.ExternalIDs[nb.KeySelector]] = strings.Join(names, " ")
	}
	return out
}

// holder is the pod with a face.
func (w *world) holder(face netip.Addr) string {
	for key, p := range w.pods {
		if len(p.Assigned) > 0 && slices.Contains(p.Assigned[0].Faces, face) {
			return key.String()
		}
	}
	return "nobody with " + face.String()
}

func (w *world) wantRemote(t *testing.T, when, network string, want map[string]string) {
	t.Helper()
	if got := w.remote(network); !maps.Equal(got, want) {
		t.Errorf("%s, %s has %q, want %q", when, network, got, want)
	}
	// A fresh start has the same.
	fresh := &world{cluster: newCluster(), settings: w.settings}
	fresh.begin(w.clone())
	fresh.settle()
	if got := fresh.remote(network); !maps.Equal(got, want) {
		t.Errorf("%s, after a fresh start %s has %q, want %q", when, network, got, want)
	}
	if fresh.patches != 0 || !sameRows(w.graph, fresh.graph) {
		t.Errorf("%s: a fresh start writes %d annotations, and has the same rows: %t", when, fresh.patches, sameRows(w.graph, fresh.graph))
	}
}

func in(peer *match.Pods) string { return "remote Ingress " + peer.String() }
func to(peer *match.Pods) string { return "remote Egress " + peer.String() }

// Selectors mean pods of Networks that have to do with the policy's own: of those that reach it in Ingress, and of those that it reaches in
// Egress; and nobody of another, whatever its labels say.
func TestPeersOfOtherNetworks(t *testing.T) {
	w := remoteWorld(t)
	web := appOf("", "web")
	w.setPolicy(meets("r", web))
	w.setPolicy(meets("b", web))
	w.setPolicy(meets("g", web))
	w.settle()
	w.wantRemote(t, "while blue reaches red", "red", map[string]string{in(web): "b/web"})
	w.wantRemote(t, "while blue reaches red", "blue", map[string]string{to(web): "r/web"})
	w.wantRemote(t, "while blue reaches red", "green", map[string]string{})

	// What a pod is called decides, and whether it is there.
	p := *w.pods[model.PodKey{Namespace: "b", Name: "db"}]
	p.Labels = map[string]string{"app": "web"}
	w.setPod(p)
	w.settle()
	w.wantRemote(t, "with another label", "red", map[string]string{in(web): "b/db b/web"})
	w.deletePod(p.Key)
	w.settle()
	w.wantRemote(t, "without that pod", "red", map[string]string{in(web): "b/web"})

	// Whom a Network serves decides.
	w.says("red", model.CompatiblePeer{Network: "blue"}, model.CompatiblePeer{Network: "green"})
	w.wantRemote(t, "with a second consumer", "red", map[string]string{in(web): "b/web g/web"})
	w.wantRemote(t, "with a second consumer", "green", map[string]string{to(web): "r/web"})
	// Of two providers one serves it no more, and still serves another.
	w.says("blue", model.CompatiblePeer{Network: "green"})
	w.wantRemote(t, "with a second provider", "green", map[string]string{to(web): "b/web r/web"})
	w.says("red", model.CompatiblePeer{Network: "blue"})
	w.wantRemote(t, "without the first provider", "green", map[string]string{to(web): "b/web"})
	w.wantRemote(t, "without the second consumer", "red", map[string]string{in(web): "b/web"})
	w.says("red", model.CompatiblePeer{Network: "blue"}, model.CompatiblePeer{Network: "green"})
	w.wantRemote(t, "with both providers again", "green", map[string]string{to(web): "b/web r/web"})
	w.says("blue")
	w.wantRemote(t, "without the second provider", "green", map[string]string{to(web): "r/web"})
	w.says("red", model.CompatiblePeer{Network: "green"})
	w.wantRemote(t, "when the first one is not served any more", "red", map[string]string{in(web): "g/web"})
	w.wantRemote(t, "when the first one is not served any more", "blue", map[string]string{})
	w.says("green", model.CompatiblePeer{Network: "red"})
	w.wantRemote(t, "when both serve each other", "red", map[string]string{in(web): "g/web", to(web): "g/web"})
	w.wantRemote(t, "when both serve each other", "green", map[string]string{in(web): "r/web", to(web): "r/web"})
	w.says("red")
	w.wantRemote(t, "when it turns", "red", map[string]string{to(web): "g/web"})
	w.wantRemote(t, "when it turns", "green", map[string]string{in(web): "r/web"})
	w.says("green")
	w.wantRemote(t, "when it has ended", "red", map[string]string{})
	w.wantRemote(t, "when it has ended", "green", map[string]string{})

	w.says("red", model.CompatiblePeer{Network: "blue"})
	w.deletePolicy(meets("r", web).Key)
	w.settle()
	w.wantRemote(t, "without the policy", "red", map[string]string{})
}

// Those of a Network that does not reach this one are in no set, though the policy selects them: while compatibility is refused, or waits.
func TestRefusedNetworksAreNoPeers(t *testing.T) {
	w := remoteWorld(t)
	everybody := &match.Pods{}
	w.setPolicy(meets("r", everybody))
	w.settle()
	w.wantRemote(t, "while blue reaches red", "red", map[string]string{in(everybody): "b/db b/web"})
	// It is offered, and nobody of that tenant has asked for it.
	blue := *w.networks["blue"]
	blue.Tenant, blue.Allowed = "acme", network("blue").Allowed
	w.setNetwork(blue)
	w.settle()
	w.wantRemote(t, "while it waits", "red", map[string]string{})
	blue.Uses = []string{"red"}
	w.setNetwork(blue)
	w.settle()
	w.wantRemote(t, "when it is asked for", "red", map[string]string{in(everybody): "b/db b/web"})
	// blue's own addresses could be faces.
	refused := blue
	refused.Subnets = append(slices.Clone(blue.Subnets), model.Subnet{
		Name: "more", CIDRs: []netip.Prefix{netip.MustParsePrefix("100.64.9.0/24")},
	})
	w.setNetwork(refused)
	w.settle()
	w.wantRemote(t, "while it is refused", "red", map[string]string{})
}

// A consumer that has two providers asks for one of them no more: pods of that one leave its sets, though nothing has changed about them.
func TestAConsumerLeavesOneOfItsProviders(t *testing.T) {
	w := remoteWorld(t)
	w.says("red", model.CompatiblePeer{Network: "blue"}, model.CompatiblePeer{Network: "green"})
	w.says("blue", model.CompatiblePeer{Network: "green"})
	green := *w.networks["green"]
	green.Tenant, green.Uses = "acme", []string{"red", "blue"}
	w.setNetwork(green)
	web := appOf("", "web")
	w.setPolicy(meets("g", web))
	w.settle()
	w.wantRemote(t, "with two providers", "green", map[string]string{to(web): "b/web r/web"})
	green.Uses = []string{"blue"}
	w.setNetwork(green)
	w.settle()
	w.wantRemote(t, "with one provider", "green", map[string]string{to(web): "b/web"})
	green.Uses = []string{"blue", "red"}
	w.setNetwork(green)
	w.settle()
	w.wantRemote(t, "with two again", "green", map[string]string{to(web): "b/web r/web"})
}

// A policy of a namespace whose pods are in two Networks means by its own namespace's pods those of both, and judges each in its
// Network alone.
func TestANamespaceInTwoNetworks(t *testing.T) {
	w := remoteWorld(t)
	guest := pod("r", "guest", "blue")
	guest.Labels = map[string]string{"app": "web"}
	w.setPod(guest)
	w.settle()
	web := appOf("r", "web")
	w.setPolicy(meets("r", web))
	w.settle()
	w.wantRemote(t, "a namespace in two Networks", "red", map[string]string{in(web): "r/guest"})
	w.wantRemote(t, "a namespace in two Networks", "blue", map[string]string{to(web): "r/web"})
	for _, name := range []string{"red", "blue"} {
		for _, g := range w.groupMembers(name) {
			for _, port := range g {
				key := model.PodKey{Namespace: port[:1], Name: port[2:]}
				if at := w.attachment(key); at == nil || at.Network != name {
					t.Errorf("a port group of %s holds %s", name, port)
				}
			}
		}
	}
}

// A port's name means the numbers that pods give it to which packets go.
func TestNamedPortsOfOtherNetworks(t *testing.T) {
	w := remoteWorld(t)
	web := appOf("", "web")
	named := model.PolicyPort{Name: "http", Protocol: model.TCP}
	w.setPolicy(meets("b", web, named))
	w.settle()
	p80, p8080 := model.PodPort{Name: "http", Protocol: model.TCP, Port: 80}, model.PodPort{Name: "http", Protocol: model.TCP, Port: 8080}
	byName := func(p model.PodPort) string { return "remote Egress " + string(compile.NamedGroup(*web, p)) }
	w.wantRemote(t, "by name", "blue", map[string]string{to(web): "r/web", byName(p80): "r/web"})
	anew := *w.pods[model.PodKey{Namespace: "r", Name: "db"}]
	w.deletePod(anew.Key)
	w.settle()
	anew.UID, anew.Assigned, anew.Labels, anew.Ports = "another", nil, map[string]string{"app": "web"}, []model.PodPort{p8080}
	w.setPod(anew)
	w.settle()
	w.wantRemote(t, "with a second number", "blue", map[string]string{to(web): "r/db r/web", byName(p80): "r/web", byName(p8080): "r/db"})
	if rows := w.acls("NetworkPolicy/blue/b/meets"); !slices.ContainsFunc(rows,
		func(m string) bool { return strings.Contains(m, "tcp.dst == 8080") }) {
		t.Errorf("no row is about the second number: %q", rows)
	}
	w.deletePod(anew.Key)
	w.settle()
	w.wantRemote(t, "without it", "blue", map[string]string{to(web): "r/web", byName(p80): "r/web"})
}

// acls are the matches of an owner's rows.
func (w *world) acls(owner string) []string {
	o, _ := nb.ParseOwner(owner)
	facts, _ := w.graph.Facts(o)
	var out []string
	for _, row := range facts.Rows {
		if a, ok := row.(*nb.ACL); ok {
			out = append(out, a.Match)
		}
	}
	return out
}

// groupMembers are the names of the ports in each port group of a Network.
func (w *world) groupMembers(network string) map[string][]string {
	out := map[string][]string{}
	for _, ref := range w.graph.Refs() {
		row, _ := w.graph.Row(ref)
		g, ok := row.(*nb.PortGroup)
		if !ok || g.ExternalIDs[nb.KeyNetwork] != network {
			continue
		}
		for _, uuid := range w.graph.Elements(nb.Set{Row: ref, Column: nb.ColumnPorts}) {
			port, _ := w.graph.Row(nb.Ref{Table: nb.TableLogicalSwitchPort, UUID: uuid})
			if p, ok := port.(*nb.LogicalSwitchPort); ok && p.ExternalIDs[nb.KeyOwner] != nb.NetworkOwner(network).String() {
				out[g.ExternalIDs[nb.KeySelector]] = append(out[g.ExternalIDs[nb.KeySelector]], p.Name)
			}
		}
	}
	return out
}

// Policies know the pods of a Network that is joined to theirs by their own addresses as well, while it is, and by these no others.
func TestPoliciesKnowJoinedPodsByTheirOwnAddresses(t *testing.T) {
	w := remoteWorld(t)
	w.setNetwork(network("cyan", "front", "10.9.0.0/24"))
	w.setNamespace("c", map[string]string{model.LabelNetwork: "cyan"})
	p := pod("c", "web", "")
	p.Labels = map[string]string{"app": "web"}
	w.setPod(p)
	policy := meets("r", appOf("", "web"))
	w.setPolicy(policy)
	expect := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, ref := range w.graph.Refs() {
			row, _ := w.graph.Row(ref)
			set, ok := row.(*nb.AddressSet)
			if ok && set.ExternalIDs[nb.KeyNetwork] == "red" && strings.HasPrefix(set.ExternalIDs[nb.KeySelector], "remote Ingress") &&
				strings.HasSuffix(set.Name, "_ip4") {
				got = append(got, w.graph.Elements(nb.Set{Row: ref, Column: nb.ColumnAddresses})...)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	face := func(key model.PodKey) string { return w.attachment(key).Faces[0].String() }
	cyan, blue := p.Key, model.PodKey{Namespace: "b", Name: "web"}
	by := func(mode model.CompatibilityMode) {
		w.says("red", model.CompatiblePeer{Network: "blue"}, model.CompatiblePeer{Network: "cyan", Mode: mode})
	}
	by(model.Routed)
	expect("joined", face(blue), face(cyan), w.attachment(cyan).Addresses[0].Addr().String())
	by(model.ByFace)
	expect("by face", face(blue), face(cyan))
	by(model.Routed)
	expect("joined again", face(blue), face(cyan), w.attachment(cyan).Addresses[0].Addr().String())
	w.says("red", model.CompatiblePeer{Network: "blue"})
	expect("not at all", face(blue))
}
