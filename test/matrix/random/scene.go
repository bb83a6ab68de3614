// Package random proves isolation on scenes that nobody chose: Networks, pods and addresses drawn by a seed, such that
// addresses overlap as much as they can, and every way from every pod to every other.
//
// In flows a seed, and what the cluster gave the scene's pods and Services. Out flow paths with what must become of each
// (Expect, which shares nothing with the product and reads the scene alone), and, from what was observed, what is wrong
// (Judge). What must stay true: an answer alone proves nothing, for addresses overlap. A path counts as reached when the
// very pod that was meant says so and has recorded the path's token, and as closed when nobody answered, nobody took a
// connection and no pod of the scene has recorded the token.
package random

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
)

// Plan is what addresses a Network has.
type Plan struct {
	Name  string
	CIDRs []netip.Prefix
	// base is where addresses that pods ask for are counted from; those of all plans of a family are the same.
	base netip.Addr
}

// Plans overlap each other and what is the cluster's: a common range of both families, all of 10.0.0.0/8 with the
// cluster's Services and nodes in it, no IPv4 at all, and a part of the first.
func Plans() []Plan {
	p := netip.MustParsePrefix
	v4, v6 := netip.MustParseAddr("10.0.0.16"), netip.MustParseAddr("fd00:10::10")
	return []Plan{
		{Name: "both families", CIDRs: []netip.Prefix{p("10.0.0.0/24"), p("fd00:10::/64")}, base: v4},
		{Name: "10.0.0.0/8", CIDRs: []netip.Prefix{p("10.0.0.0/8")}, base: v4},
		{Name: "IPv6 alone", CIDRs: []netip.Prefix{p("fd00:10::/64")}, base: v6},
		{Name: "a part of the first", CIDRs: []netip.Prefix{p("10.0.0.0/25"), p("fd00:10::/96")}, base: v4},
	}
}

// What a scene has.
const (
	networks = 6
	pods     = 24
	// addresses is how many different ones pods ask for: so few that Networks share many.
	addresses = 8
)

// Default is the Network of pods for which nobody chose one.
const Default = "default"

// Network is one of a scene's. Its namespace has its name, and a Service of the name web for all its pods.
type Network struct {
	Name string
	Plan Plan
}

// Pod is one of a scene's.
type Pod struct {
	Namespace, Name string
	// Network is Default for pods of the namespaces Plain and Infra.
	Network, Node string
	// Asks is the address that it asks for, invalid where it leaves the choice.
	Asks netip.Addr
}

// The namespaces of pods of the default Network. Those of Infra are infrastructure: they may dial faces.
const (
	Plain = "random-plain"
	Infra = "random-infra"
)

// Scene is what a seed gives.
type Scene struct {
	Networks []Network
	Pods     []Pod
}

// Draw draws a scene: each of the plans at least once, pods on any node, an address that all have, and half of the other pods
// with one of few.
func Draw(seed uint64, plans []Plan, nodes []string) Scene {
	r := rand.New(rand.NewPCG(seed, 0))
	var s Scene
	for i := range networks {
		plan := plans[i%len(plans)]
		if i >= len(plans) {
			plan = plans[r.IntN(len(plans))]
		}
		s.Networks = append(s.Networks, Network{Name: fmt.Sprintf("random-%d", i), Plan: plan})
	}
	asked := map[string][]netip.Addr{}
	for i := range pods {
		// Two in each Network, and the others anywhere.
		n := s.Networks[i%networks]
		if i >= 2*networks {
			n = s.Networks[r.IntN(networks)]
		}
		p := Pod{Namespace: n.Name, Name: fmt.Sprintf("p%02d", i), Network: n.Name, Node: nodes[r.IntN(len(nodes))]}
		ask, asks := Nth(n.Plan.base, r.IntN(addresses)), r.IntN(2) == 0
		if i < networks {
			ask, asks = n.Plan.base, true // one that all have
		}
		if asks && !slices.Contains(asked[n.Name], ask) {
			p.Asks = ask
			asked[n.Name] = append(asked[n.Name], ask)
		}
		s.Pods = append(s.Pods, p)
	}
	for _, ns := range []string{Plain, Infra} {
		for i := range 2 {
			s.Pods = append(s.Pods, Pod{Namespace: ns, Name: fmt.Sprintf("p%d", i), Network: Default, Node: nodes[r.IntN(len(nodes))]})
		}
	}
	return s
}

// Nth is the address n after a.
func Nth(a netip.Addr, n int) netip.Addr {
	for range n {
		a = a.Next()
	}
	return a
}
