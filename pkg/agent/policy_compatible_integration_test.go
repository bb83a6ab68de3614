//go:build integration

package agent

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/wait"
)

// found adds a Network, and its namespace of the same name.
func (j *judged) found(name string) {
	n := vpc(name)
	n.Finalized = true
	j.agent.world.SetNetwork(n)
	must(j.tb, j.agent.sweep(j.tb.Context()))
	j.change(func(c *model.Changes) {
		c.Networks[name] = n
		c.Namespaces[name] = &model.Namespace{Name: name, Labels: map[string]string{model.LabelNetwork: name}}
	})
}

// serves makes a Network the provider of those consumers, and of no others, for the controller and for the agent.
func (j *judged) serves(provider string, consumers ...string) {
	j.tb.Helper()
	n := *j.agent.world.Network(uidOf(provider))
	n.CompatibleWith = nil
	for _, consumer := range consumers {
		n.CompatibleWith = append(n.CompatibleWith, model.CompatiblePeer{Network: consumer})
	}
	j.agent.world.SetNetwork(&n)
	must(j.tb, j.agent.portholes.Refresh(j.tb.Context(), portholes.Trusting))
	j.change(func(c *model.Changes) { c.Networks[provider] = &n })
}

// podsOf selects the pods with a label of the namespaces of a Network.
func podsOf(network, app string) match.Pods {
	return match.Pods{
		Namespaces: match.Selector{Requirements: []match.Requirement{{Key: model.LabelNetwork, Op: match.In, Values: []string{network}}}},
		Labels:     labelIs(app),
	}
}

// meeting is a NetworkPolicy by which the pods of a namespace have to do with some pods at port 80 in that direction, and with nobody else.
func meeting(namespace string, d model.Direction, with match.Pods) model.Policy {
	p := model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: namespace, Name: "meeting"}, UID: "uid-meeting-" + namespace,
		Tier:    model.TierTenant,
		Subject: match.Pods{Namespace: namespace},
	}
	p.Isolates[d] = true
	p.Rules[d] = []model.Rule{{
		Verdict: model.Allow, Peers: []model.Peer{{Pods: &with}},
		Ports: []model.PolicyPort{{Protocol: model.TCP, First: 80, Last: 80}, {Protocol: model.UDP, First: 80, Last: 80}},
	}}
	return p
}

// callers are pods that dial another one at the same time, from one port.
type callers struct {
	to   *testPod
	from map[string]*testPod
	port int
}

// reach is who of them is answered, in order, by a protocol and an IP family; and each is seen as its own face.
func (c *callers) reach(t *testing.T, network string, family, port int) string {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	var reached []string
	for name, from := range c.from {
		all.Go(func() {
			conn, told, err := dial(wait.Context(t, time.Second), from.inside, network, c.to.nic.Faces[family], port)
			if err != nil {
				return
			}
			defer conn.Close()
			mu.Lock()
			defer mu.Unlock()
			if want := fmt.Sprintf("%s sees %s", c.to.request.Pod.Name, netip.AddrPortFrom(from.nic.Faces[family], uint16(port))); told != want {
				t.Errorf("%s is told %q, want %q", name, told, want)
			}
			reached = append(reached, name)
		})
	}
	all.Wait()
	var out []string
	for _, name := range []string{"b", "b2", "c"} {
		for _, r := range reached {
			if r == name {
				out = append(out, name)
			}
		}
	}
	return strings.Join(out, " ")
}

// want waits until those reach it who should, by IPv4, and then expects the same of all protocols and families.
func (c *callers) want(t *testing.T, when, want string) {
	t.Helper()
	// Whoever ends a connection keeps its port for a while.
	next := func() int { c.port++; return c.port }
	await(t, func() *bool {
		if c.reach(t, "tcp", 0, next()) == want {
			return new(bool)
		}
		return nil
	})
	var all sync.WaitGroup
	for family := range 2 {
		for _, network := range []string{"tcp", "udp"} {
			port := next()
			all.Go(func() {
				if got := c.reach(t, network, family, port); got != want {
					t.Errorf("%s: by %s of family %d it is reached by %q, want %q", when, network, family, got, want)
				}
			})
		}
	}
	all.Wait()
}

// TestPoliciesTellConsumersApart: blue and green are consumers of red, with the same addresses. Their pods dial a pod of red at
// the same time, from one port. Policies of red tell the one Network's from the other's, and single pods of each; the egress
// policies of a consumer tell the provider's pods apart.
func TestPoliciesTellConsumersApart(t *testing.T) {
	j := newJudged(t)
	j.found("green")
	server, other := j.pod("red", "server", "10.0.0.9", "server"), j.pod("red", "other", "10.0.0.5", "other")
	b, c := j.pod("blue", "client", "10.0.0.5", "web"), j.pod("green", "client", "10.0.0.5", "web")
	b2 := j.pod("blue", "second", "10.0.0.6", "db")
	if b.nic.Addresses[0] != c.nic.Addresses[0] || b.nic.Addresses[1] != c.nic.Addresses[1] {
		t.Fatalf("the clients have %v and %v, and this test shows nothing", b.nic.Addresses, c.nic.Addresses)
	}
	for _, p := range []*testPod{server, other} {
		serveSeen(t, p.inside, p.request.Pod.Name)
	}
	calls := &callers{server, map[string]*testPod{"b": b, "b2": b2, "c": c}, 4711}
	j.serves("red", "blue", "green")
	calls.want(t, "without a policy", "b b2 c")

	j.policy(meeting("red", model.PolicyIngress, podsOf("blue", "web")))
	calls.want(t, "with one of blue's pods", "b")
	j.policy(meeting("red", model.PolicyIngress, podsOf("green", "web")))
	calls.want(t, "with one of green's pods", "c")
	j.policy(meeting("red", model.PolicyIngress, podsOf("blue", "")))
	calls.want(t, "with all of blue's pods", "b b2")
	j.policy(meeting("red", model.PolicyIngress, match.Pods{Labels: labelIs("web")}))
	calls.want(t, "with one pod of each", "b c")
	j.label(b2, "web")
	calls.want(t, "with another label", "b b2 c")
	j.label(b2, "db")

	// It has the labels that the policy selects, and is of a Network that does not reach red: it is in no set of anybody.
	j.serves("red", "blue")
	calls.want(t, "when green is no consumer any more", "b")
	await(t, func() *bool {
		if j.nbctl("--bare", "--columns=name", "find", "Address_Set", "addresses{>=}"+c.nic.Faces[0].String()) == "" {
			return new(bool)
		}
		return nil
	})
	j.serves("red", "blue", "green")
	calls.want(t, "when it is one again", "b c")

	// A rule of the cluster goes before it.
	web := podsOf("blue", "web")
	deny := model.Policy{
		Key: model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: "deny"}, UID: "uid-deny", Tier: model.TierAdmin, Subject: match.Pods{},
		Rules: [2][]model.Rule{{{Verdict: model.Deny, AnyPort: true, Peers: []model.Peer{{Pods: &web}}}}},
	}
	j.policy(deny)
	calls.want(t, "with a rule of the cluster against one of blue's", "c")
	j.withdraw(deny)

	// What consumers may send is theirs to say, each for its own pods.
	j.withdraw(meeting("red", model.PolicyIngress, web))
	calls.want(t, "without a policy again", "b b2 c")
	j.policy(meeting("blue", model.PolicyEgress, podsOf("red", "server")))
	toOther := &callers{other, calls.from, 5711}
	toOther.want(t, "the other pod, when blue sends to the server alone", "c")
	calls.want(t, "when blue sends to it", "b b2 c")
	j.policy(meeting("blue", model.PolicyEgress, podsOf("red", "other")))
	calls.want(t, "when blue sends to the other pod alone", "c")
	toOther.want(t, "the other pod, when blue sends to it", "b b2 c")
	j.withdraw(meeting("blue", model.PolicyEgress, web))
	calls.want(t, "without any policy", "b b2 c")
}
