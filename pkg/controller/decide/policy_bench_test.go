package decide_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Sizes of the cluster of these benchmarks: pods in namespaces of one Network, each with one of some labels.
const (
	benchNamespaces = 50
	benchPods       = 10_000
	benchApps       = 10
)

func benchNamespace(i int) string { return fmt.Sprint("ns-", i%benchNamespaces) }
func benchApp(i int) string       { return fmt.Sprint("app-", i/benchNamespaces%benchApps) }

func benchLabels(i int) map[string]string {
	return map[string]string{"app": benchApp(i), "tier": fmt.Sprint("tier-", i%3), "pod-template-hash": fmt.Sprint(i % 97)}
}

// fill makes a Network with its pods.
func fill(c *cluster, pods int) {
	for i := range benchNamespaces {
		c.setNamespace(benchNamespace(i), map[string]string{
			model.LabelNetwork: "red", "kubernetes.io/metadata.name": benchNamespace(i), "team": fmt.Sprint("team-", i%5),
		})
	}
	c.setNetwork(network("red", "front", "10.0.0.0/16"))
	for i := range pods {
		c.setPod(benchPod(i))
	}
}

func benchPod(i int) model.Pod {
	p := pod(benchNamespace(i), fmt.Sprint("pod-", i), "")
	p.Labels = benchLabels(i)
	return p
}

// benchPolicy is a policy of a kind that people write: a label's pods receive from another's in the namespace, from
// another team's namespaces, or from a block of addresses; and every fifth isolates what they send, too.
func benchPolicy(i int) model.Policy {
	ns := benchNamespace(i)
	labels := func(app string) match.Selector {
		return match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{app}}}}
	}
	var peer model.Peer
	switch i / benchNamespaces % 3 {
	case 0:
		peer.Pods = &match.Pods{Namespace: ns, Labels: labels(benchApp(i + benchNamespaces))}
	case 1:
		peer.Pods = &match.Pods{Labels: labels(benchApp(i)), Namespaces: match.Selector{
			Requirements: []match.Requirement{{Key: "team", Op: match.In, Values: []string{fmt.Sprint("team-", i%5)}}},
		}}
	default:
		peer.Block = &model.Block{CIDR: netip.MustParsePrefix("192.0.2.0/24"), Except: []netip.Prefix{netip.MustParsePrefix("192.0.2.128/28")}}
	}
	p := model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: ns, Name: fmt.Sprint("policy-", i)}, UID: fmt.Sprint("uid-policy-", i),
		Tier:    model.TierTenant,
		Subject: match.Pods{Namespace: ns, Labels: labels(benchApp(i))}, Isolates: [2]bool{true, i%5 == 0},
		Rules: [2][]model.Rule{{{
			Verdict: model.Allow, Peers: []model.Peer{peer}, Ports: []model.PolicyPort{
				{Protocol: model.TCP, First: 80, Last: 80}, {Protocol: model.TCP, First: 443, Last: 443},
			},
		}}},
	}
	if i%5 == 0 {
		p.Rules[model.PolicyEgress] = []model.Rule{{Verdict: model.Allow, AnyPort: true, Peers: []model.Peer{{Pods: &match.Pods{Namespace: ns}}}}}
	}
	return p
}

// BenchmarkPodEvent is a pod that comes and goes, onto 10,000, without policies and with 1,000: what the controller needs to
// know what to write, database and API server apart.
func BenchmarkPodEvent(b *testing.B) {
	for _, policies := range []int{0, 100, 1_000} {
		b.Run(fmt.Sprint("policies=", policies), func(b *testing.B) {
			w := newWorld()
			fill(w.cluster, benchPods)
			for i := range policies {
				w.setPolicy(benchPolicy(i))
			}
			w.settle()
			places := 0
			for b.Loop() {
				p := benchPod(benchPods + 1)
				w.setPod(p)
				w.settleOnce()
				facts, _ := w.graph.Facts(nb.PodOwner(p.Key.Namespace, p.Key.Name))
				places = len(facts.Members) - 1
				w.deletePod(p.Key)
				w.settleOnce()
			}
			b.ReportMetric(float64(places), "groups/pod")
		})
	}
}

// BenchmarkPodEventFaces is the same where pods have faces, and policies allow single pods by them: a block each.
func BenchmarkPodEventFaces(b *testing.B) {
	const perNode = 500
	for _, policies := range []int{0, 1_000} {
		b.Run(fmt.Sprint("policies=", policies), func(b *testing.B) {
			w := facedWorld("100.64.0.0/10")
			for i := range benchPods/perNode + 1 {
				w.setNode(node(fmt.Sprint("node-", i), 1))
			}
			w.settle()
			fill(w.cluster, 0)
			on := func(i int) model.Pod {
				p := benchPod(i)
				p.Node = fmt.Sprint("node-", i/perNode)
				return p
			}
			for i := range benchPods {
				w.setPod(on(i))
			}
			w.settle()
			for i := range policies {
				p := benchPolicy(i)
				face := w.attachment(on(i).Key).Faces[0]
				p.Rules[model.PolicyIngress][0].Peers = []model.Peer{{Block: &model.Block{CIDR: netip.PrefixFrom(face, face.BitLen())}}}
				w.setPolicy(p)
			}
			w.settle()
			for b.Loop() {
				p := on(benchPods + 1)
				w.setPod(p)
				w.settleOnce()
				w.deletePod(p.Key)
				w.settleOnce()
			}
		})
	}
}

// BenchmarkPolicyEvent is a policy that comes and goes, onto 10,000 pods and 1,000 policies.
func BenchmarkPolicyEvent(b *testing.B) {
	w := newWorld()
	fill(w.cluster, benchPods)
	for i := range 1_000 {
		w.setPolicy(benchPolicy(i))
	}
	w.settle()
	for b.Loop() {
		p := benchPolicy(3)
		p.Key.Name, p.UID = "one-more", "uid-one-more"
		p.Subject.Labels = match.Selector{}
		w.setPolicy(p)
		w.settleOnce()
		w.deletePolicy(p.Key)
		w.settleOnce()
	}
}

// settleOnce applies what has changed and takes the work, as a transaction does.
func (w *world) settleOnce() {
	w.state.Apply(w.Take())
	for {
		work, ok := w.graph.Next()
		if !ok {
			return
		}
		w.state.Committed(work.Owner)
	}
}
