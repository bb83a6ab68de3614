package decide_test

import (
	"net/netip"
	"time"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

var peeredNames = []string{"red", "blue", "acme"}

// peer makes a Network one of a tenant of its own, which serves and uses others if a coin says so: each end may end it.
func peer(n *model.Network, coin func(what string) bool) {
	n.Tenant, n.Allowed, n.Uses, n.UsesAddressesOf, n.CompatibleWith = "of-"+n.Name, &match.Selector{}, nil, nil, nil
	for _, other := range peeredNames {
		if other != n.Name && coin("serves "+other) {
			n.CompatibleWith = append(n.CompatibleWith, model.CompatiblePeer{Network: other, Addresses: coin("by addresses, too")})
		}
		if other != n.Name && coin("uses "+other) {
			n.Uses = append(n.Uses, other)
			if coin("by addresses") {
				n.UsesAddressesOf = append(n.UsesAddressesOf, other)
			}
		}
	}
}

// peeredSteps are three Networks that reach each other, with pods and a policy in each.
func peeredSteps(small bool) []step {
	cidr := "10.0.0.0/29"
	if small {
		cidr = "10.0.0.0/24"
	}
	var out []step
	for i, name := range peeredNames {
		n := network(name, "s", cidr)
		if i == 0 {
			// One whose pods others may dial by their own addresses.
			n.Subnets[0].CIDRs[0] = netip.PrefixFrom(netip.MustParseAddr("10.5.0.0"), n.Subnets[0].CIDRs[0].Bits())
		}
		peer(&n, func(string) bool { return true })
		out = append(out, step{"Network " + name, func(w *world) { w.makeNetwork(n) }})
		p := asking("x", somePods[i], name, model.NICRequest{})
		p.UID, p.Created, p.Labels = "uid-peered-"+name, time.Unix(0, 0), map[string]string{"app": "web"}
		out = append(out, step{"Pod " + p.Key.String(), func(w *world) { w.makePod(p, false) }})
	}
	everybody := meets("x", &match.Pods{}, model.PolicyPort{Name: "http", Protocol: model.TCP})
	return append(out, step{everybody.Key.String(), func(w *world) { w.setPolicy(everybody) }})
}

// drawPolicy is a NetworkPolicy, or now and then one that denies something in all namespaces.
func drawPolicy(t *rapid.T, ns, name string) model.Policy {
	labels := func(what string) match.Selector {
		app := rapid.SampledFrom([]string{"", "web", "db"}).Draw(t, what)
		if app == "" {
			return match.Selector{}
		}
		return match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{app}}}}
	}
	p := model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: ns, Name: name}, UID: "uid-policy-" + ns + "-" + name,
		Tier: model.TierTenant, Subject: match.Pods{Namespace: ns, Labels: labels("subject")},
	}
	verdict := model.Allow
	if rapid.IntRange(0, 3).Draw(t, "cluster") == 0 {
		p.Tier, p.Subject.Namespace, verdict = model.TierAdmin, "", model.Deny
	} else {
		p.Isolates = [2]bool{rapid.Bool().Draw(t, "ingress"), rapid.Bool().Draw(t, "egress")}
	}
	for d := range p.Rules {
		for range rapid.IntRange(0, 2).Draw(t, "rules") {
			r := model.Rule{Verdict: verdict, AnyPort: true}
			switch rapid.SampledFrom([]string{"anybody", "pods", "block", "nodes"}).Draw(t, "peer") {
			case "anybody":
				r.AnyPeer = true
			case "pods":
				// Without a namespace they are of all, and so perhaps of Networks that this one has to do with.
				namespace := rapid.SampledFrom([]string{"", "", ns}).Draw(t, "namespace of the peer")
				r.Peers = []model.Peer{{Pods: &match.Pods{Namespace: namespace, Labels: labels("peer")}}}
			case "block":
				r.Peers = []model.Peer{{Block: drawBlock(t)}}
			case "nodes":
				zone := match.Requirement{Key: "zone", Op: match.In, Values: []string{rapid.SampledFrom([]string{"one", "two"}).Draw(t, "zone")}}
				r.Peers = []model.Peer{{Nodes: &match.Selector{Requirements: []match.Requirement{zone}}}}
			}
			if rapid.Bool().Draw(t, "named") {
				r.AnyPort, r.Ports = false, []model.PolicyPort{{Name: "http", Protocol: model.TCP}}
			}
			p.Rules[d] = append(p.Rules[d], r)
		}
	}
	return p
}

// drawBlock is a block of faces, or of everything without some.
func drawBlock(t *rapid.T) *model.Block {
	faces := netip.MustParsePrefix(
		rapid.SampledFrom([]string{"100.64.0.1/32", "100.64.0.2/31", "100.64.2.0/30", "100.64.0.0/23"}).Draw(t, "faces"))
	if rapid.Bool().Draw(t, "all but them") {
		return &model.Block{CIDR: netip.MustParsePrefix("0.0.0.0/0"), Except: []netip.Prefix{faces}}
	}
	return &model.Block{CIDR: faces}
}
