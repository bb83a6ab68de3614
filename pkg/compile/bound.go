package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/atoll-net/atoll/pkg/model"
)

// maxNamed bounds what a policy's ports with a name cost in one Network: over all rules, the numbers that pods give these names, times the
// peers that the match of each number holds. The Network's own pods and those of other Networks are counted apart, so that no other Network
// takes away what a policy says of its own one. Each number is an ACL of each IP family, and a port group.
const maxNamed = 4096

// named says whether a rule's ports with a name count, as ports of the Network's own pods, and of pods of other Networks.
type named struct{ own, remote bool }

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

// bound keeps a policy within maxNamed. Beyond it a rule that allows has no ports with a name, and a rule that denies or passes denies its
// peers, whatever the port.
func (in Around) bound(p model.Policy) bounded {
	out := bounded{Policy: p}
	for d := range p.Rules {
		out.named[d] = make([]named, len(p.Rules[d]))
		for i := range out.named[d] {
			out.named[d][i] = named{own: true, remote: true}
		}
	}
	own, remote := in.beyond(p)
	for _, at := range own {
		out.named[at.direction][at.index].own = false
	}
	for _, at := range remote {
		out.named[at.direction][at.index].remote = false
	}
	for d, rules := range p.Rules {
		for i, n := range out.named[d] {
			if n.own && n.remote || rules[i].Verdict == model.Allow {
				continue
			}
			// The policy is its owner's: it stays as it is.
			if &out.Rules[d][0] == &rules[0] {
				out.Rules[d] = slices.Clone(rules)
			}
			r := &out.Rules[d][i]
			r.Verdict, r.AnyPort, r.Ports = model.Deny, true, nil
		}
	}
	return out
}

// beyond are the rules of a policy that are beyond maxNamed, by the ports of the Network's own pods, and by those of others. What a policy's
// pods receive goes to ports of their own.
func (in Around) beyond(p model.Policy) (own, remote []ruleAt) {
	own = beyond(p, in.Named, model.PolicyIngress, model.PolicyEgress)
	return own, beyond(p, in.RemoteNamed, model.PolicyEgress)
}

// beyond lets the rules that cost least fit first: who gives one name many numbers takes nothing from the rules about other names.
func beyond(p model.Policy, numbers map[NamedPorts][]model.PodPort, directions ...model.Direction) []ruleAt {
	type weighed struct {
		ruleAt
		weight int
	}
	var all []weighed
	for _, d := range directions {
		for i, r := range p.Rules[d] {
			if n := weight(p, d, r, numbers); n > 0 {
				all = append(all, weighed{ruleAt{d, i}, n})
			}
		}
	}
	slices.SortFunc(all, func(a, b weighed) int { return cmp.Or(cmp.Compare(a.weight, b.weight), a.compare(b.ruleAt)) })
	var out []ruleAt
	sum := 0
	for _, w := range all {
		if sum += w.weight; sum > maxNamed {
			out = append(out, w.ruleAt)
		}
	}
	return out
}

// weight is what a rule's ports with a name cost. The match of a number holds all peers that are senders; those that packets go to are the
// number's group, and blocks besides, where any pod may be behind them.
func weight(p model.Policy, d model.Direction, r model.Rule, numbers map[NamedPorts][]model.PodPort) int {
	sum := 0
	for ask := range asks(p, d, r) {
		peers := len(r.Peers)
		if d == model.PolicyEgress && ask.Pods != Everybody().String() {
			peers = 1
		}
		sum += len(numbers[ask]) * max(1, peers)
	}
	return sum
}

// Beyond says what of a policy does not count in a Network because it is beyond maxNamed.
func Beyond(p model.Policy, in Around) []model.Problem {
	own, remote := in.beyond(p)
	rules := slices.Concat(own, remote)
	slices.SortFunc(rules, ruleAt.compare)
	rules = slices.Compact(rules)
	if len(rules) == 0 {
		return nil
	}
	field, effect := "ingress", "they allow nothing"
	if rules[0].direction == model.PolicyEgress {
		field = "egress"
	}
	if p.Tier != model.TierTenant {
		effect = "a rule that accepts accepts nothing by them, and one that denies or passes denies its peers at all ports"
	}
	return []model.Problem{{
		Reason: model.ReasonPolicyInvalid,
		Message: fmt.Sprintf("in Network %s pods give too many numbers to the named ports of %d rules, the first of which is spec.%s[%d]: %s. "+
			"Numbers times peers are at most %d in a policy; ports that the policy gives as numbers are not counted",
			in.Layout.Name, len(rules), field, rules[0].index, effect, maxNamed),
	}}
}
