package compile

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// maxNamed bounds what a policy's ports with a name cost in one Network: over all rules, the numbers that pods give these names, times the
// peers that the match of each number holds. The Network's own pods and those of other Networks are counted apart, so that no other Network
// takes away what a policy says of its own one. Each number is an ACL of each IP family, and a port group.
//
// Tenants share it. The numbers that a tenant's pods give a name count all, or none of them does. Tenants that give fewer numbers
// come first. So a tenant that gives a name thousands of numbers loses them, and takes no number from a tenant that gives fewer.
const maxNamed = 4096

// Given are the ports of a name that the pods of one tenant have, each once, in order. A namespace without a tenant is one by itself.
type Given struct {
	Tenant string
	Ports  []model.PodPort
}

// counted is what counts of the ports of a name, in order, and the tenants whose ports do not.
type counted struct {
	ports  []model.PodPort
	beyond []string
	// apart are the ports that count, by whose they are, in place of ports: see keepApart.
	apart []Given
}

// named is what counts of the ports with a name of a rule, as ports of the Network's own pods, and of pods of other Networks.
type named struct{ own, remote map[NamedPorts]counted }

// beyond reports whether some tenant's ports do not count.
func (n named) beyond() bool { return len(sharesBeyond(n.own))+len(sharesBeyond(n.remote)) > 0 }

// bounded is a policy as far as it is compiled in a Network, with what counts of each rule.
type bounded struct {
	model.Policy
	named [2][]named
}

// ruleAt is a rule's place in a policy.
type ruleAt struct {
	direction model.Direction
	index     int
}

func (a ruleAt) compare(b ruleAt) int {
	return cmp.Or(cmp.Compare(a.direction, b.direction), cmp.Compare(a.index, b.index))
}

func compareAsks(a, b NamedPorts) int {
	return cmp.Or(strings.Compare(a.Pods, b.Pods), strings.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol))
}

// bound keeps a policy within maxNamed. Beyond it a rule that allows has no ports with a name, and a rule that denies or passes
// denies its peers all ports of the pods of those tenants whose ports do not count. Where it cannot, it denies its peers,
// whatever the port and the pod.
func (in Around) bound(p model.Policy) bounded {
	out := bounded{Policy: p}
	own := count(p, in.Named, model.PolicyIngress, model.PolicyEgress)
	remote := count(p, in.RemoteNamed, model.PolicyEgress)
	denied := 0
	for d, rules := range p.Rules {
		out.named[d] = make([]named, len(rules))
		for i, r := range rules {
			at := ruleAt{model.Direction(d), i}
			n := named{own[at], remote[at]}
			if r.Verdict == model.Allow || !n.beyond() {
				out.named[d][i] = n
				continue
			}
			if r.Verdict == model.Pass {
				n = named{keepApart(n.own, in.Named), keepApart(n.remote, in.RemoteNamed)}
			}
			denied += n.cost(at.direction, r)
			if denied <= maxNamed && (r.Verdict == model.Deny || in.passesByNameAlone(at.direction, r)) {
				out.named[d][i] = n
				continue
			}
			// The policy is its owner's: it stays as it is.
			if &out.Rules[d][0] == &rules[0] {
				out.Rules[d] = slices.Clone(rules)
			}
			whole := &out.Rules[d][i]
			whole.Verdict, whole.AnyPort, whole.Ports = model.Deny, true, nil
		}
	}
	return out
}

// keepApart divides the ports that count of a rule that passes by whose they are, and leaves out those of tenants of whose pods
// it denies all ports: the group of a number holds pods of all tenants that give it, and of two ACLs of one priority that pass
// and deny a packet OVN takes either.
func keepApart(all map[NamedPorts]counted, numbers map[NamedPorts][]Given) map[NamedPorts]counted {
	denied := sharesBeyond(all)
	if len(denied) == 0 {
		return all
	}
	out := map[NamedPorts]counted{}
	for ask := range all {
		var c counted
		for _, g := range numbers[ask] {
			if _, closed := slices.BinarySearch(denied, g.Tenant); closed {
				c.beyond = append(c.beyond, g.Tenant)
			} else {
				c.apart = append(c.apart, g)
			}
		}
		out[ask] = c
	}
	return out
}

// cost counts the groups of one tenant's pods that a rule has beyond maxNamed, times peers: each is an ACL, too.
func (n named) cost(d model.Direction, r model.Rule) int {
	sum := 0
	for _, all := range []map[NamedPorts]counted{n.own, n.remote} {
		for ask, c := range all {
			groups := len(c.beyond)
			for _, g := range c.apart {
				groups += len(g.Ports)
			}
			sum += groups * factor(d, r, ask)
		}
	}
	return sum
}

// passesByNameAlone reports whether a rule passes packets to pods by their ports' names alone: not by numbers, or where pods of
// the Network answer for the cluster's DNS.
func (in Around) passesByNameAlone(d model.Direction, r model.Rule) bool {
	return !slices.ContainsFunc(r.Ports, func(p model.PolicyPort) bool { return p.Name == "" }) &&
		(d == model.PolicyIngress || !slices.ContainsFunc(in.Doors, func(door Door) bool { return in.Layout.Means(door.Dial.Addr()) }))
}

// sharesBeyond are the tenants whose ports do not count for a rule, sorted.
func sharesBeyond(all map[NamedPorts]counted) []string {
	var out []string
	for _, c := range all {
		out = append(out, c.beyond...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// share is what one tenant gives to a name, and with it those who give nothing that is not there already.
type share struct {
	tenants []string
	// numbers counts the tenant's ports; fresh are those that no tenant with fewer gives.
	numbers int
	fresh   []model.PodPort
}

// sharesOf orders what tenants give to a name: who gives least comes first. What is beyond maxNamed in any case is not read.
func sharesOf(given []Given) []share {
	given = slices.SortedFunc(slices.Values(given), func(a, b Given) int {
		return cmp.Or(cmp.Compare(len(a.Ports), len(b.Ports)), strings.Compare(a.Tenant, b.Tenant))
	})
	var out []share
	seen := map[model.PodPort]struct{}{}
	for _, g := range given {
		s := share{tenants: []string{g.Tenant}, numbers: len(g.Ports)}
		for _, p := range g.Ports {
			if len(seen) > maxNamed {
				break
			}
			if _, had := seen[p]; !had {
				seen[p] = struct{}{}
				s.fresh = append(s.fresh, p)
			}
		}
		switch {
		case len(s.fresh) > 0:
			out = append(out, s)
		case len(out) > 0:
			out[len(out)-1].tenants = append(out[len(out)-1].tenants, g.Tenant)
		}
	}
	return out
}

// claim is what a rule asks for by a name. next is the index of the first share that count has not counted yet.
type claim struct {
	ruleAt
	ask    NamedPorts
	factor int
	shares []share
	next   int
}

// weight orders claims by what the tenant that is next gives.
func (c *claim) weight() int { return c.shares[c.next].numbers * c.factor }

func (c *claim) compare(other *claim) int {
	return cmp.Or(cmp.Compare(c.weight(), other.weight()), c.ruleAt.compare(other.ruleAt), compareAsks(c.ask, other.ask))
}

// claims are a heap: which one comes next, is found without looking at all shares of all rules.
type claims []*claim

func (c claims) Len() int           { return len(c) }
func (c claims) Less(i, j int) bool { return c[i].compare(c[j]) < 0 }
func (c claims) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *claims) Push(x any)        { *c = append(*c, x.(*claim)) } //nolint:forcetypeassert // heap.Interface

func (c *claims) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// count says what counts of a policy's ports with a name. What a policy's pods receive goes to ports of their own. The shares
// that cost least fit first: who gives one name many numbers takes nothing from other names either.
func count(p model.Policy, numbers map[NamedPorts][]Given, directions ...model.Direction) map[ruleAt]map[NamedPorts]counted {
	shares := map[NamedPorts][]share{}
	var all []*claim
	for _, d := range directions {
		for i, r := range p.Rules[d] {
			for ask := range asks(p, d, r) {
				if _, had := shares[ask]; !had {
					shares[ask] = sharesOf(numbers[ask])
				}
				if len(shares[ask]) > 0 {
					all = append(all, &claim{ruleAt: ruleAt{d, i}, ask: ask, factor: factor(d, r, ask), shares: shares[ask]})
				}
			}
		}
	}
	waiting := claims(slices.Clone(all))
	heap.Init(&waiting)
	for sum := 0; len(waiting) > 0; {
		c := waiting[0]
		if sum += len(c.shares[c.next].fresh) * c.factor; sum > maxNamed {
			break
		}
		if c.next++; c.next == len(c.shares) {
			heap.Pop(&waiting)
		} else {
			heap.Fix(&waiting, 0)
		}
	}
	out := map[ruleAt]map[NamedPorts]counted{}
	for _, c := range all {
		if out[c.ruleAt] == nil {
			out[c.ruleAt] = map[NamedPorts]counted{}
		}
		out[c.ruleAt][c.ask] = c.counted()
	}
	return out
}

// counted is what of the claim fits.
func (c *claim) counted() counted {
	var out counted
	for i, s := range c.shares {
		if i < c.next {
			out.ports = append(out.ports, s.fresh...)
		} else {
			out.beyond = append(out.beyond, s.tenants...)
		}
	}
	slices.SortFunc(out.ports, model.PodPort.Compare)
	slices.Sort(out.beyond)
	return out
}

// factor is what one number of a rule's port with a name costs. The match of a number holds all peers that are senders; those
// that packets go to are the number's group, and blocks besides, where any pod may be behind them.
func factor(d model.Direction, r model.Rule, ask NamedPorts) int {
	if d == model.PolicyEgress && ask.Pods != Everybody().String() {
		return 1
	}
	return max(1, len(r.Peers))
}

// Beyond says what of a policy does not count in a Network because it is beyond maxNamed.
func Beyond(p model.Policy, in Around) []model.Problem {
	rules := map[ruleAt]struct{}{}
	tenants := map[string]struct{}{}
	for _, all := range []map[ruleAt]map[NamedPorts]counted{
		count(p, in.Named, model.PolicyIngress, model.PolicyEgress), count(p, in.RemoteNamed, model.PolicyEgress),
	} {
		for at, of := range all {
			for _, tenant := range sharesBeyond(of) {
				rules[at], tenants[tenant] = struct{}{}, struct{}{}
			}
		}
	}
	if len(rules) == 0 {
		return nil
	}
	first := slices.MinFunc(slices.Collect(maps.Keys(rules)), ruleAt.compare)
	field, effect := "ingress", "by name they allow nothing to these pods"
	if first.direction == model.PolicyEgress {
		field = "egress"
	}
	if p.Tier != model.TierTenant {
		effect = "by name a rule that accepts accepts nothing to these pods, and one that denies or passes denies its peers all " +
			"ports of them, or of all pods"
	}
	return []model.Problem{{
		Reason: model.ReasonPolicyInvalid,
		Message: fmt.Sprintf("in Network %s pods of %d tenants give too many numbers to the named ports of %d rules, the first "+
			"of which is spec.%s[%d]: %s. Numbers times peers are at most %d in a policy, those of tenants with few numbers come first, and ports "+
			"that the policy gives as numbers are not counted",
			in.Layout.Name, len(tenants), len(rules), field, first.index, effect, maxNamed),
	}}
}
