package policytrial

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// FlowChange is a flow that was seen and about which it would be decided otherwise.
type FlowChange struct {
	// Index is its place in the question.
	Index         int
	Before, After Verdict
}

// place is an address in a Network; of faces there is one space, whose name no Network has.
type place struct {
	network string
	address netip.Addr
}

// faces is the space of all faces.
const faces = ""

// seenFlows judges flows that were seen.
type seenFlows struct {
	*comparison
	kinOf   map[model.PodKey]*kin
	holders map[place]*model.Pod
	taken   map[string][]netip.Prefix
	known   map[string]FlowChange
}

// flows finds of the flows that were seen those that would be stopped, or newly let through: those that would be decided
// otherwise now, and were decided when they were seen as it would be decided now. Of a pod that has gone, or that who asks may
// not be told of, nothing is said but that it was not judged.
func (c *comparison) flows() error {
	s := seenFlows{
		comparison: c, kinOf: map[model.PodKey]*kin{}, holders: map[place]*model.Pod{}, taken: map[string][]netip.Prefix{},
		known: map[string]FlowChange{},
	}
	for _, k := range c.kins {
		for _, key := range k.Pods {
			s.kinOf[key] = k
		}
	}
	for _, p := range c.q.Objects.Pods {
		if len(p.Assigned) == 0 {
			continue
		}
		for _, own := range p.Assigned[0].Addresses {
			s.holders[place{p.Assigned[0].Network, own.Addr()}] = p
		}
		for _, face := range p.Assigned[0].Faces {
			s.holders[place{faces, face}] = p
		}
	}
	for _, k := range c.kins {
		c.out.Unsampled += c.unsampled(k)
	}
	for i, f := range c.q.Flows {
		if err := c.spend(1 + len(s.near)); err != nil {
			return err
		}
		p, protocol, judged := s.pathOf(f)
		if !judged {
			c.out.Unjudged++
			continue
		}
		if p == nil {
			continue
		}
		before, after, err := s.verdictsOf(*p, protocol, f)
		if err != nil {
			return err
		}
		if before.Allowed != after.Allowed && before.Allowed != f.Dropped() {
			c.out.Flows = append(c.out.Flows, FlowChange{i, before, after})
		}
	}
	return nil
}

// verdictsOf judges what is the same to policies once.
func (s seenFlows) verdictsOf(p path, protocol model.Protocol, f model.Flow) (before, after Verdict, err error) {
	key := fmt.Sprint(p.begins.pod != nil, p.dialled.pod != nil, p.face, f.Network, p.sent, p.received, protocol, f.Port)
	if known, is := s.known[key]; is {
		return known.Before, known.After, nil
	}
	before, after, err = s.verdicts(p, protocol, f.Port)
	s.known[key] = FlowChange{Before: before, After: after}
	return before, after, err
}

// unsampled is how many pods of a group the change selects that no policy selects now in a direction: what they sent or received
// so was not sampled at them.
func (c *comparison) unsampled(k *kin) int {
	for _, d := range []model.Direction{model.PolicyIngress, model.PolicyEgress} {
		if !c.concerns(k, d) || slices.ContainsFunc(policiesOf(c.before.policies), func(p *model.Policy) bool {
			return (p.Isolates[d] || len(p.Rules[d]) > 0) && p.Subject.Matches(k.target)
		}) {
			continue
		}
		n := 0
		for _, key := range k.Pods {
			if c.sees(key) {
				n++
			}
		}
		return n
	}
	return 0
}

func policiesOf(all map[model.PolicyKey]*model.Policy) (out []*model.Policy) {
	for _, p := range all {
		out = append(out, p)
	}
	return out
}

// pathOf is the way that a flow took, by pods that are to policies as those that it was between. It is nil where no policy has to
// do with it, and judged is false where that is not known.
func (s seenFlows) pathOf(f model.Flow) (p *path, protocol model.Protocol, judged bool) {
	switch f.Protocol {
	case string(model.TCP), string(model.UDP), string(model.SCTP):
		protocol = model.Protocol(f.Protocol)
	case "icmp", "icmp6":
		protocol = trace.ICMP
	}
	switch {
	case f.Policy != nb.Isolation && f.Policy != "" && !strings.Contains(f.Policy, "/"):
		// What is no policy's, none changes: a pod's own node reaches it, and nobody poses as a router.
		return nil, protocol, true
	case f.Policy == "", protocol == "", !f.Source.IsValid(), !f.Destination.IsValid():
		return nil, protocol, false
	}
	key, is := model.ParsePortName(f.Pod)
	k := s.kinOf[key.Pod]
	if !is || k == nil || !s.sees(key.Pod) || k.Network != f.Network {
		return nil, protocol, false
	}
	judgedAt, other := f.Destination, f.Source
	out := f.Direction == model.PolicyEgress.String()
	if out {
		judgedAt, other = f.Source, f.Destination
	}
	if at := s.holders[place{f.Network, judgedAt}]; at == nil || at.Key != key.Pod {
		return nil, protocol, false
	}
	peer, face, known := s.peer(f, other)
	if !known {
		return nil, protocol, false
	}
	path, found := s.route(k, key.Pod, peer, other, face, out)
	return path, protocol, found
}

// peer is whose the other address was: nobody's where it is outside of what pods have. known is false where it was a pod's that
// is not there now, or may not be told of.
func (s seenFlows) peer(f model.Flow, a netip.Addr) (pod *model.Pod, face, known bool) {
	pod = s.holders[place{f.Network, a}]
	if pod == nil {
		for name := range s.near {
			if name != f.Network && s.before.db.Joined(f.Network, name) && s.holders[place{name, a}] != nil {
				pod = s.holders[place{name, a}]
			}
		}
	}
	if pod == nil {
		pod = s.holders[place{faces, a}]
		face = pod != nil
	}
	if pod != nil {
		return pod, face, s.kinOf[pod.Key] != nil && s.sees(pod.Key) && !pod.Created.After(f.Last)
	}
	n := s.q.Objects.Networks[f.Network]
	if n == nil {
		return nil, false, false
	}
	if _, there := s.taken[n.Name]; !there {
		s.taken[n.Name] = s.podRanges(n)
	}
	return nil, false, !slices.ContainsFunc(s.taken[n.Name], func(r netip.Prefix) bool { return r.Contains(a) })
}

// podRanges are those of which only pods have addresses, as a Network meets them.
func (s *scope) podRanges(n *model.Network) (out []netip.Prefix) {
	layout, _ := compile.Plan(*n, compile.Cluster{DefaultSubnet: s.q.Defaults.Subnet, Services: s.q.Defaults.Services})
	for _, r := range layout.Ranges() {
		out = append(out, r.CIDR)
	}
	if n.Type == model.VPC {
		return append(out, s.q.Defaults.Faces...)
	}
	// Nodes are in the default Network, too.
	if n.Name == s.q.Defaults.Network {
		return nil
	}
	return out
}

// route is the way between the group of a pod and that of another, or an address. Two pods of one group take two of it.
func (s seenFlows) route(k *kin, key model.PodKey, peer *model.Pod, address netip.Addr, face, out bool) (*path, bool) {
	own := k.pods[0]
	if len(k.pods) > 1 && k.pods[1].Key == key {
		own = k.pods[1]
	}
	src, has := ofFamily(trace.Addresses(s.ports[own.Key]), address.Is4())
	if !has {
		return nil, false
	}
	if peer == nil {
		p := &path{pair: pair{&Group{Kind: Outside}, &k.Group}, dialled: end{k, own}, received: trace.Packet{From: address, To: src}}
		if out {
			p = &path{pair: pair{&k.Group, &Group{Kind: Outside}}, begins: end{k, own}, sent: trace.Packet{From: src, To: address}}
		}
		return p, true
	}
	with := s.kinOf[peer.Key]
	other := with.pods[0]
	if with == k {
		if len(k.pods) < maxOf {
			// It is the only one, and speaks with itself.
			return nil, peer.Key == key
		}
		other = k.pods[0]
		if own == other {
			other = k.pods[1]
		}
	}
	from, to := end{k, own}, end{with, other}
	if !out {
		from, to = to, from
	}
	p := &path{pair: pair{&from.kin.Group, &to.kin.Group}, begins: from, dialled: to, face: face}
	source, target := s.ports[from.pod.Key], s.ports[to.pod.Key]
	sends, sendsToo := ofFamily(trace.Addresses(source), address.Is4())
	dials, dialsToo := ofFamily(trace.Addresses(target), address.Is4())
	p.sent = trace.Packet{From: sends, To: dials}
	p.received = p.sent
	if face {
		seen, faced := ofFamily(s.before.db.Faces(source), address.Is4())
		dialled, facedToo := ofFamily(s.before.db.Faces(target), address.Is4())
		p.sent, p.received = trace.Packet{From: sends, To: dialled}, trace.Packet{From: seen, To: dials}
		sendsToo, dialsToo = sendsToo && faced, dialsToo && facedToo
	}
	return p, sendsToo && dialsToo
}
