package policytrial

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// What is compared at most. Beyond it an outcome says that it was cut.
const (
	// maxKins bounds the groups of pods, and maxChanges the changes. What it takes is bounded by maxWork.
	maxKins    = 600
	maxChanges = 1_000
)

// Compare says what would change. Its error says that rows cannot be read or do not decide, or is the error of Question.Gone.
func Compare(q Question) (Outcome, error) {
	var out Outcome
	if q.Gone == nil {
		q.Gone = func() error { return nil }
	}
	s, err := scopeOf(q, &out, spender(q.Gone))
	switch {
	case errors.Is(err, errSpent):
		out.cut("nothing was compared: the policies ask too much of too many pods")
		return out, nil
	case err != nil, len(s.networks) == 0:
		return out, err
	}
	if len(s.kins) > maxKins {
		// Those that are selected first: of a change they are what counts.
		slices.SortStableFunc(s.kins, func(a, b *kin) int { return cmp.Compare(s.rank(a), s.rank(b)) })
		out.cut(fmt.Sprintf("%d of %d groups of pods were compared", maxKins, len(s.kins)))
		s.kins = s.kins[:maxKins]
	}
	c := &comparison{
		scope: s, out: &out, ports: map[model.PodKey]*nb.LogicalSwitchPort{}, pairs: map[pair]*rows{}, groups: map[string]*Group{},
	}
	for at, policies := range map[*side]map[model.PolicyKey]*model.Policy{&c.before: s.before, &c.after: s.after} {
		at.db, at.policies = compiled(q.Defaults, s.objects(policies)), policies
		at.db.Bound(s.spend)
		// It is the controller's own code, which asks nobody.
		if err := q.Gone(); err != nil {
			return out, err
		}
	}
	portless := 0
	for _, k := range s.kins {
		k.pods = slices.DeleteFunc(k.pods, func(p *model.Pod) bool {
			port := c.before.db.Port(p.Key.First().PortName())
			if port != nil {
				c.ports[p.Key] = port
			}
			return port == nil
		})
		if len(k.pods) == 0 && c.seen(k) {
			portless += len(k.Pods)
		}
	}
	if portless > 0 {
		// Their objects say that they have addresses, and the controller would not plug them in.
		out.cut(fmt.Sprintf("%s with no port", model.Count(portless, "pod")))
	}
	s.kins = slices.DeleteFunc(s.kins, func(k *kin) bool { return len(k.pods) == 0 })
	err = c.run()
	if err == nil {
		err = c.flows()
	}
	if errors.Is(err, errSpent) {
		// What was found by then is so.
		out.cut(fmt.Sprintf("it was ended after %d verdicts", out.Judged))
		err = nil
	}
	c.merge()
	return out, err
}

// rank puts those groups first that a change selects.
func (s *scope) rank(k *kin) int {
	if s.concerns(k, model.PolicyIngress) || s.concerns(k, model.PolicyEgress) {
		return 0
	}
	return 1
}

// side is the state before the policies change, or after.
type side struct {
	db       *trace.Database
	policies map[model.PolicyKey]*model.Policy
}

// comparison compares.
type comparison struct {
	*scope
	out           *Outcome
	before, after side
	ports         map[model.PodKey]*nb.LogicalSwitchPort
	pairs         map[pair]*rows
	order         []pair
	// groups are those that are no pods, by what they are.
	groups map[string]*Group
}

// pair is two groups, of which the first begins.
type pair struct{ from, to *Group }

// end is one end of a packet; pod is nil if it is no pod.
type end struct {
	kin *kin
	pod *model.Pod
}

// path is a packet on one way between two ends: as it is judged where it is sent, and where it is received.
type path struct {
	pair
	begins, dialled end
	sent, received  trace.Packet
	face            bool
	// only: of these protocols and ports alone.
	only []PortSet
}

// run judges what the change can concern.
func (c *comparison) run() error {
	for _, k := range c.kins {
		if !c.seen(k) {
			continue
		}
		in, out := c.concerns(k, model.PolicyIngress), c.concerns(k, model.PolicyEgress)
		for _, other := range c.kins {
			if !c.seen(other) {
				continue
			}
			// Two groups that are both concerned meet once in each direction.
			if out {
				if err := c.between(k, other); err != nil {
					return err
				}
			}
			if in && !c.concerns(other, model.PolicyEgress) {
				if err := c.between(other, k); err != nil {
					return err
				}
			}
		}
		for d, concerned := range []bool{in, out} {
			if !concerned {
				continue
			}
			if err := c.beyond(k, model.Direction(d)); err != nil {
				return err
			}
		}
	}
	return nil
}

// seen reports whether the asker may see a group: at least one of its pods is visible to the asker.
func (c *comparison) seen(k *kin) bool { return slices.ContainsFunc(k.Pods, c.sees) }

// between judges what pods of one group send to those of another.
func (c *comparison) between(from, to *kin) error {
	begins, dialled := end{from, from.pods[0]}, end{to, to.pods[0]}
	if from == to {
		if len(to.pods) < maxOf {
			return nil
		}
		dialled.pod = to.pods[1]
	}
	source, target := c.ports[begins.pod.Key], c.ports[dialled.pod.Key]
	p := path{pair: pair{&from.Group, &to.Group}, begins: begins, dialled: dialled}
	db := c.before.db
	if from.Network == to.Network || db.Joined(from.Network, to.Network) {
		for _, own := range trace.Addresses(source) {
			for _, other := range trace.Addresses(target) {
				if own.Is4() == other.Is4() {
					p.sent = trace.Packet{From: own, To: other}
					p.received = p.sent
					if err := c.judge(p); err != nil {
						return err
					}
				}
			}
		}
	}
	if from.Network == to.Network {
		return nil
	}
	p.face = db.Joined(from.Network, to.Network)
	for _, own := range trace.Addresses(source) {
		seen, reaches := ofFamily(db.Faces(source), own.Is4())
		face, has := ofFamily(db.Faces(target), own.Is4())
		other, both := ofFamily(trace.Addresses(target), own.Is4())
		if !reaches || !has || !both || !db.Holds(to.Network, compile.FacesTaken, seen) {
			continue
		}
		p.sent, p.received = trace.Packet{From: own, To: face}, trace.Packet{From: seen, To: other}
		if err := c.judge(p); err != nil {
			return err
		}
	}
	return nil
}

func ofFamily(all []netip.Addr, v4 bool) (netip.Addr, bool) {
	i := slices.IndexFunc(all, func(a netip.Addr) bool { return a.Is4() == v4 })
	if i < 0 {
		return netip.Addr{}, false
	}
	return all[i], true
}

// beyond judges what pods of a group receive from nodes and outside, or send there.
func (c *comparison) beyond(k *kin, d model.Direction) error {
	n := c.q.Objects.Networks[k.Network]
	if n == nil {
		return nil
	}
	for _, m := range c.machines {
		if err := c.toNodes(k, m, d); err != nil {
			return err
		}
	}
	pod := k.pods[0]
	own := trace.Addresses(c.ports[pod.Key])
	if d == model.PolicyEgress {
		for _, door := range c.behindDoors(n) {
			for _, at := range door.Dialled {
				src, has := ofFamily(own, at.Addr().Is4())
				if !has {
					continue
				}
				packet := trace.Packet{From: src, To: at.Addr()}
				err := c.judge(path{
					pair: pair{&k.Group, c.shared(door.Group)}, begins: end{k, pod}, sent: packet, received: packet,
					only: []PortSet{{door.protocol, []Range{{at.Port(), at.Port()}}}},
				})
				if err != nil {
					return err
				}
			}
		}
	}
	if !open(n, d) {
		return nil
	}
	prefixes, taken := prefixesOf(slices.Collect(maps.Values(c.before.policies)), k, d), c.taken(n)
	prefixes = append(prefixes, prefixesOf(slices.Collect(maps.Values(c.after.policies)), k, d)...)
	for _, a := range own {
		all, err := regions(n.Name, a.Is4(), prefixes, taken, c.spend)
		if err != nil {
			return err
		}
		for _, r := range all {
			outside := c.shared(r.Group)
			p := path{pair: pair{&k.Group, outside}, begins: end{k, pod}, sent: trace.Packet{From: a, To: r.address}}
			if d == model.PolicyIngress {
				p = path{pair: pair{outside, &k.Group}, dialled: end{k, pod}, received: trace.Packet{From: r.address, To: a}}
			}
			if err := c.judge(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// shared is one group for all that are the same.
func (c *comparison) shared(g Group) *Group {
	text := fmt.Sprint(g.Kind, g.Network, g.CIDR, g.Except, g.Dialled)
	if known := c.groups[text]; known != nil {
		return known
	}
	c.groups[text] = &g
	return &g
}

// open reports whether anything outside has to do with a Network at all.
func open(n *model.Network, d model.Direction) bool {
	if n.Type != model.VPC {
		return true
	}
	if d == model.PolicyIngress {
		return n.Ingress != model.InfraIngressNone
	}
	return n.Egress != model.EgressNone || n.Infra != model.InfraNone
}

// toNodes judges what pods of a group receive from nodes, or send to them. A pod's own node reaches it whatever policies say, and
// is not asked.
func (c *comparison) toNodes(k *kin, m *machines, d model.Direction) error {
	for _, pod := range k.pods {
		port := c.ports[pod.Key]
		i := slices.IndexFunc(m.nodes, func(n *model.Node) bool { return n.Name != pod.Node || d == model.PolicyEgress })
		if i < 0 {
			continue
		}
		addresses := m.nodes[i].Addresses
		if d == model.PolicyIngress {
			addresses = nil
			if given := m.nodes[i].Assigned; given != nil {
				for _, own := range given.Addresses {
					addresses = append(addresses, own.Addr())
				}
			}
		}
		for _, own := range trace.Addresses(port) {
			node, has := ofFamily(addresses, own.Is4())
			if !has {
				continue
			}
			p := path{pair: pair{&k.Group, &m.Group}, begins: end{k, pod}, sent: trace.Packet{From: own, To: node}}
			if d == model.PolicyIngress {
				p = path{pair: pair{&m.Group, &k.Group}, dialled: end{k, pod}, received: trace.Packet{From: node, To: own}}
			}
			if err := c.judge(p); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}
