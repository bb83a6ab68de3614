package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// TestAStrangersNumbersTakeNothingFromOthersRules: in a Network that two tenants share, evil's pods give a name 5,120 numbers. A
// policy of acme about any pod keeps the number of acme's own pods, and the operator's rules that deny and pass by name deny all
// ports of evil's pods and of no others. The control is evil with few numbers.
func TestAStrangersNumbersTakeNothingFromOthersRules(t *testing.T) {
	const pods, each = 20, 256
	w := newWorld()
	w.setNetwork(network("shared", "front", "10.0.0.0/24"))
	for _, tenant := range []string{"acme", "evil"} {
		w.setNamespace(tenant, map[string]string{model.LabelTenant: tenant, model.LabelNetwork: "shared"})
	}
	gives := func(ns, name string, first, n int) model.PodKey {
		p := pod(ns, name, "")
		for i := range n {
			p.Ports = append(p.Ports, model.PodPort{Name: "http", Protocol: model.TCP, Port: uint16(first + i)})
		}
		w.setPod(p)
		return p.Key
	}
	gives("acme", "web", 80, 1)
	http := []model.PolicyPort{{Name: "http", Protocol: model.TCP}}
	own := meets("acme", &match.Pods{}, http...)
	deny := model.Policy{
		Key: model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: "deny"}, UID: "uid-deny", Tier: model.TierAdmin, Subject: match.Pods{},
		Rules: [2][]model.Rule{{{Verdict: model.Deny, AnyPeer: true, Ports: http}}},
	}
	passes := deny
	passes.Key.Name, passes.UID, passes.Priority = "pass", "uid-pass", 1
	passes.Rules = [2][]model.Rule{{{Verdict: model.Pass, AnyPeer: true, Ports: http}}}
	for _, p := range []model.Policy{own, deny, passes} {
		w.setPolicy(p)
	}
	// Packets to any pod concern what acme's policy says of what is sent, and the operator's of what is received.
	about := func(p model.Policy, text string) bool {
		side := "outport == "
		if p.Tier == model.TierTenant {
			side = "inport == "
		}
		return slices.ContainsFunc(w.acls(compile.PolicyOwner(p.Key, "shared").String()), func(m string) bool {
			return strings.HasPrefix(m, side) && strings.Contains(m, text)
		})
	}
	want := func(when string, evil bool, closed string, members int) {
		t.Helper()
		w.settle()
		for _, p := range []model.Policy{own, deny, passes} {
			if !about(p, "tcp.dst == 80 ") {
				t.Errorf("%s: %s says nothing about acme's port", when, p.Key)
			}
			if about(p, "tcp.dst == 1000 ") != evil {
				t.Errorf("%s: %s counts evil's ports: %v", when, p.Key, !evil)
			}
		}
		groups := map[string]int{}
		for words, ports := range w.groupMembers("shared") {
			if _, tenant, of := strings.Cut(words, " of "); of && !strings.Contains(words, " port ") {
				groups[tenant] = len(ports)
				if slices.Contains(ports, "acme/web") {
					t.Errorf("%s: all ports of acme's pod are denied", when)
				}
			}
		}
		if closed == "" && len(groups) > 0 || closed != "" && (len(groups) != 1 || groups[closed] != members) {
			t.Errorf("%s: all ports are denied of the pods of %v, want %d of %s", when, groups, members, closed)
		}
		fresh := &world{cluster: newCluster(), settings: defaults}
		fresh.begin(w.clone())
		fresh.settle()
		if !sameRows(w.graph, fresh.graph) {
			t.Errorf("%s: a fresh start has other rows", when)
		}
	}
	gives("evil", "p0", 1000, each)
	want("evil gives few numbers", true, "", 0)
	for i := 1; i < pods; i++ {
		gives("evil", fmt.Sprint("p", i), 1000+i*each, each)
	}
	want("evil gives thousands", false, `"tenant evil"`, pods)
	w.setNamespace("evil", map[string]string{model.LabelTenant: "worse", model.LabelNetwork: "shared"})
	want("evil's namespace is another tenant's", false, `"tenant worse"`, pods)
	w.setNamespace("evil", map[string]string{model.LabelNetwork: "shared"})
	want("evil's namespace is nobody's", false, `"namespace evil"`, pods)
	gives("evil", "innocent", 1000, 0)
	want("a pod more of evil's", false, `"namespace evil"`, pods+1)
	for i := 1; i < pods; i++ {
		w.deletePod(model.PodKey{Namespace: "evil", Name: fmt.Sprint("p", i)})
	}
	want("evil gives few again", true, "", 0)
}
