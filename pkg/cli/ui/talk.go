package ui

import (
	"cmp"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// Verdicts of flows, as the API has them.
const (
	verdictAllow  = "allow"
	verdictDrop   = "drop"
	verdictReject = "reject"
	verdictPass   = "pass"
)

// party is an end of flows. Its address is valid only in the Network in Space.
type party struct {
	api.FlowEnd
	Space string
}

// partiesOf returns both ends of a flow.
func partiesOf(f api.Flow) (from, to party) {
	from, to = party{f.From, f.Network}, party{f.To, f.Network}
	// The pod at which the flow was judged is in the flow's Network. An older API does not say so.
	if f.Direction == model.PolicyEgress.String() {
		from.Network = f.Network
	} else if f.Direction == model.PolicyIngress.String() {
		to.Network = f.Network
	}
	return from, to
}

// key identifies the party: by its name, else by its address in its Network.
func (p party) key() string {
	if p.Name != "" {
		return strings.Join([]string{p.Kind, p.Name}, "\x00")
	}
	return strings.Join([]string{p.Kind, p.Space, p.Address}, "\x00")
}

// word returns the argument of `atoll explain` for the party. It is empty when there is none.
func (p party) word(begins bool) string {
	switch {
	case p.Kind == api.FlowPod && p.Name != "":
		return p.Name
	case p.Kind == api.FlowService && !begins:
		return "svc/" + p.Name
	case p.Kind == api.FlowNode:
		return "node/" + p.Name
	case p.Kind == api.FlowOutside && begins:
		return "outside"
	}
	return p.Address
}

// count counts the verdicts at one end.
type count struct{ allow, drop, pass uint64 }

// talk is the traffic of one end that dials another on a port.
type talk struct {
	From, To party
	Protocol string
	Port     uint16
	// egress counts the verdicts at From, ingress those at To.
	egress, ingress count
	// policies are those that let it through and those that did not.
	policies map[bool][]string
}

// passed reports whether a verdict lets a flow pass.
func passed(verdict string) bool { return verdict != verdictDrop && verdict != verdictReject }

// connections is how often the flow was allowed or dropped. What both ends allowed is one connection; what the first end drops,
// the second does not see.
func (t *talk) connections(dropped bool) uint64 {
	if dropped {
		return t.egress.drop + t.ingress.drop
	}
	for _, c := range []count{t.ingress, t.egress} {
		if c.allow+c.drop > 0 {
			return c.allow
		}
	}
	// Whoever passes leaves it to others, who were not sampled.
	return max(t.egress.pass, t.ingress.pass)
}

// question returns the question that explains the talk's way. It has no ends when there is no such question.
func (t *talk) question() questionForm {
	q := questionForm{From: t.From.word(true), To: t.To.word(false), Protocol: t.Protocol}
	if t.Port != 0 {
		q.Port = large(int64(t.Port))
	}
	if strings.HasPrefix(t.Protocol, "icmp") {
		q.Protocol = string(trace.ICMP)
	}
	for _, p := range []party{t.From, t.To} {
		if word := p.word(false); p.Kind != api.FlowOutside && word == p.Address {
			q.Network = p.Space
		}
	}
	if _, err := q.spec(); err != nil {
		return questionForm{}
	}
	return q
}

// talksOf groups flows by their two ends, protocol and port.
func talksOf(flows []api.Flow) []*talk {
	type key struct {
		from, to, protocol string
		port               uint16
	}
	known := map[key]*talk{}
	var out []*talk
	for _, f := range flows {
		from, to := partiesOf(f)
		k := key{from.key(), to.key(), f.Protocol, f.Port}
		t := known[k]
		if t == nil {
			t = &talk{From: from, To: to, Protocol: f.Protocol, Port: f.Port, policies: map[bool][]string{}}
			known[k] = t
			out = append(out, t)
		}
		// The API always gives the Network of the pod at which the flow was judged, and that of the other end only if the user may see
		// it. Another flow between the same two may fill the gap.
		t.From.Network, t.To.Network = cmp.Or(t.From.Network, from.Network), cmp.Or(t.To.Network, to.Network)
		c := &t.ingress
		if f.Direction == model.PolicyEgress.String() {
			c = &t.egress
		}
		switch f.Verdict {
		case verdictAllow:
			c.allow += f.Connections
		case verdictDrop, verdictReject:
			c.drop += f.Connections
		case verdictPass:
			c.pass += f.Connections
		default:
			// The verdict is unknown, and so is whether the flow passed.
			continue
		}
		if list := t.policies[!passed(f.Verdict)]; f.Policy != "" && !slices.Contains(list, f.Policy) {
			t.policies[!passed(f.Verdict)] = append(list, f.Policy)
		}
	}
	return out
}

// stroke is what goes from one place to another, and is let through; or is not.
type stroke struct {
	From, To    string
	Dropped     bool
	Connections uint64
	// Policies are those that decided, sorted, Talks what it is made of: those with the most connections first.
	Policies []string
	Talks    []*talk
}

// strokesOf gathers talks by where their ends are: what was dropped first, then those with the most connections.
func strokesOf(talks []*talk, place func(party) string) []*stroke {
	type key struct {
		from, to string
		dropped  bool
	}
	known := map[key]*stroke{}
	var out []*stroke
	for _, t := range talks {
		for _, dropped := range []bool{true, false} {
			n := t.connections(dropped)
			if n == 0 {
				continue
			}
			k := key{place(t.From), place(t.To), dropped}
			s := known[k]
			if s == nil {
				s = &stroke{From: k.from, To: k.to, Dropped: dropped}
				known[k] = s
				out = append(out, s)
			}
			s.Connections += n
			s.Talks = append(s.Talks, t)
			for _, policy := range t.policies[dropped] {
				if at, has := slices.BinarySearch(s.Policies, policy); !has {
					s.Policies = slices.Insert(s.Policies, at, policy)
				}
			}
		}
	}
	for _, s := range out {
		slices.SortStableFunc(s.Talks, func(a, b *talk) int { return cmp.Compare(b.connections(s.Dropped), a.connections(s.Dropped)) })
	}
	slices.SortStableFunc(out, func(a, b *stroke) int {
		return cmp.Or(rank(b.Dropped)-rank(a.Dropped), cmp.Compare(b.Connections, a.Connections), cmp.Compare(a.From, b.From),
			cmp.Compare(a.To, b.To))
	})
	return out
}

// Verdict is the word for it.
func (s *stroke) Verdict() string {
	if s.Dropped {
		return "dropped"
	}
	return "allowed"
}

// By are the policies in few words.
func (s *stroke) By() string {
	switch len(s.Policies) {
	case 0:
		return "a policy that is not known"
	case 1:
		return snapshot.Printable(s.Policies[0])
	}
	return snapshot.Printable(s.Policies[0]) + " and " + large(int64(len(s.Policies)-1)) + " more"
}
