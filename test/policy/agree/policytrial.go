package agree

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/policytrial"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// QuestionOf asks what changes when the policies of a cluster become those that another one has.
func QuestionOf(before, after oracle.Cluster) (policytrial.Question, error) {
	defaults, err := defaultsOf()
	if err != nil {
		return policytrial.Question{}, err
	}
	q := policytrial.Question{
		Objects: changesOf(cases.Case{Cluster: before}), Defaults: defaults, Policies: map[model.PolicyKey]*model.Policy{},
	}
	is := changesOf(cases.Case{Cluster: after}).Policies
	for key := range q.Objects.Policies {
		if is[key] == nil {
			q.Policies[key] = nil
		}
	}
	for _, p := range after.Policies {
		if !slices.ContainsFunc(before.Policies, func(o netv1.NetworkPolicy) bool { return fmt.Sprint(o) == fmt.Sprint(p) }) {
			m := intake.NetworkPolicy(&p)
			q.Policies[m.Key] = m
		}
	}
	for _, p := range after.ClusterPolicies {
		if !slices.ContainsFunc(before.ClusterPolicies,
			func(o policyv1alpha2.ClusterNetworkPolicy) bool { return fmt.Sprint(o) == fmt.Sprint(p) }) {
			m := intake.ClusterNetworkPolicy(&p)
			q.Policies[m.Key] = m
		}
	}
	return q, nil
}

// Path is one that is looked up in an outcome: the packets of it are judged in the Networks of its ends.
type Path struct {
	Packets []oracle.Packet
	// from and to say which groups its ends are in.
	from, to func(*policytrial.Group) bool
}

func (p Path) first() oracle.Packet { return p.Packets[0] }

// String is for people.
func (p Path) String() string { return fmt.Sprintf("%+v", p.Packets) }

// Judge is what the oracle says of a path: what all of its packets' ends do.
func (p Path) Judge(c oracle.Cluster) (allowed bool, reasons []oracle.Reason) {
	allowed = true
	for _, packet := range p.Packets {
		v := c.Judge(packet)
		allowed = allowed && v.Allowed
		reasons = append(reasons, v.Egress, v.Ingress)
	}
	return allowed, reasons
}

// packetKinds are protocols and ports: those that random rules name, and those beside them.
func packetKinds() []oracle.Packet {
	out := []oracle.Packet{{Protocol: oracle.ICMP}}
	for _, port := range []uint16{1, 53, 79, 80, 81, 82, 83, 443, 444, 445, 65535} {
		for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
			out = append(out, oracle.Packet{Protocol: protocol, Port: port})
		}
	}
	return out
}

// someOf is how many of them are tried with what is no pod, someOfPods between two pods. They are others from path to path.
const someOf, someOfPods = 3, 12

// Paths are those of a cluster between all its pods, and between them and what is around: addresses, other nodes, and doors. On
// each some protocols and ports are tried, so that all are by turns.
func Paths(c oracle.Cluster) (out []Path) {
	all, next := packetKinds(), 0
	add := func(p Path, count int) {
		for range count {
			one := p
			one.Packets = slices.Clone(p.Packets)
			for i := range one.Packets {
				one.Packets[i].Protocol, one.Packets[i].Port = all[next%len(all)].Protocol, all[next%len(all)].Port
			}
			out, next = append(out, one), next+1
		}
	}
	for _, p := range c.Pods {
		if p.Network == "" {
			continue
		}
		for family := range 2 {
			self := oracle.End{Pod: p.Key(), Address: p.Addresses[family]}
			for _, o := range c.Pods {
				switch {
				case o.Network == "" || o.Key() == p.Key():
				case o.Network == p.Network:
					other := oracle.End{Pod: o.Key(), Address: o.Addresses[family]}
					add(Path{[]oracle.Packet{{Network: p.Network, From: self, To: other}}, holds(p), holds(o)}, someOfPods)
				case slices.Contains(c.Compatible, oracle.Compatibility{Provider: o.Network, Consumer: p.Network}):
					add(Path{[]oracle.Packet{
						{Network: p.Network, From: self, To: oracle.End{Address: o.Faces[family]}},
						{Network: o.Network, From: oracle.End{Address: p.Faces[family]}, To: oracle.End{Pod: o.Key(), Address: o.Addresses[family]}},
					}, holds(p), holds(o)}, someOfPods)
				}
			}
			for _, a := range addressesAround()[family] {
				if a.Is4() != self.Address.Is4() {
					continue
				}
				if _, own := cases.SubnetOf(p.Network, a); own {
					continue
				}
				add(Path{[]oracle.Packet{{Network: p.Network, From: self, To: oracle.End{Address: a}}}, holds(p), isAt(a)}, someOf)
				add(Path{[]oracle.Packet{{Network: p.Network, From: oracle.End{Address: a}, To: self}}, isAt(a), holds(p)}, someOf)
			}
			for _, n := range c.Nodes {
				own, _ := netip.ParseAddr(n.Status.Addresses[family].Address)
				add(Path{[]oracle.Packet{{Network: p.Network, From: self, To: oracle.End{Address: own}}}, holds(p), isNode(n.Name)}, someOf)
				if n.Name != p.Spec.NodeName {
					from := oracle.End{Node: n.Name, Address: cases.NodeAddresses(n.Name)[family].Addr()}
					add(Path{[]oracle.Packet{{Network: p.Network, From: from, To: self}}, isNode(n.Name), holds(p)}, someOf)
				}
			}
			for _, d := range c.Doors {
				if p.Network != cases.Default && d.Address.Is4() == self.Address.Is4() {
					packet := oracle.Packet{Network: p.Network, From: self, To: oracle.End{Address: d.Address}, Protocol: d.Protocol, Port: d.Port}
					out = append(out, Path{[]oracle.Packet{packet}, holds(p), isDoor(d)})
				}
			}
		}
	}
	return out
}

// addressesAround are some outside, of each IP family, among them those that pods of other Networks have.
func addressesAround() [2][]netip.Addr {
	var out [2][]netip.Addr
	for i, texts := range [2][]string{
		{"203.0.113.9", "203.0.113.10", "198.51.100.1", "192.0.2.13", "10.128.0.10", "10.0.0.9", "10.0.0.10", "10.96.0.77"},
		{"2001:db8:9::9", "2001:db8:8::1", "2001:db8::13", "fd00:128::a", "fd00:10::a"},
	} {
		for _, text := range texts {
			out[i] = append(out[i], netip.MustParseAddr(text))
		}
	}
	return out
}

func holds(p oracle.Pod) func(*policytrial.Group) bool {
	key := model.PodKey{Namespace: p.Namespace, Name: p.Name}
	return func(g *policytrial.Group) bool { return g.Kind == policytrial.Pods && slices.Contains(g.Pods, key) }
}

func isAt(a netip.Addr) func(*policytrial.Group) bool {
	return func(g *policytrial.Group) bool {
		return g.Kind == policytrial.Outside && g.CIDR.Contains(a) &&
			!slices.ContainsFunc(g.Except, func(e netip.Prefix) bool { return e.Contains(a) })
	}
}

func isNode(name string) func(*policytrial.Group) bool {
	return func(g *policytrial.Group) bool { return g.Kind == policytrial.Nodes && slices.Contains(g.Nodes, name) }
}

func isDoor(d oracle.Door) func(*policytrial.Group) bool {
	return func(g *policytrial.Group) bool {
		return (g.Kind == policytrial.Names || g.Kind == policytrial.API) && slices.Contains(g.Dialled, netip.AddrPortFrom(d.Address, d.Port))
	}
}

// Otherwise says what an outcome says otherwise about a path than the oracle, which knows the cluster before and after: nothing
// when they agree; and whether the path changes.
func (p Path) Otherwise(o policytrial.Outcome, before, after oracle.Cluster) (what string, changes bool) {
	was, whyBefore := p.Judge(before)
	is, whyAfter := p.Judge(after)
	return p.otherwise(o, expected{was, is, whyBefore, whyAfter}), was != is
}

// expected is what the oracle says of a path.
type expected struct {
	was, is             bool
	whyBefore, whyAfter []oracle.Reason
}

func (p Path) otherwise(o policytrial.Outcome, want expected) string {
	packet := p.first()
	protocol, family := tracedProtocol(packet.Protocol), "IPv6"
	if packet.To.Address.Is4() {
		family = "IPv4"
	}
	var found *policytrial.Change
	for i, c := range o.Changes {
		if c.Family != "" && c.Family != family || !slices.ContainsFunc(c.From, p.from) || !slices.ContainsFunc(c.To, p.to) ||
			!slices.ContainsFunc(c.Ports, func(s policytrial.PortSet) bool { return s.Has(protocol, packet.Port) }) {
			continue
		}
		if found != nil {
			return fmt.Sprintf("%s is in two changes", p)
		}
		found = &o.Changes[i]
	}
	switch {
	case found == nil && want.was == want.is:
		return ""
	case found == nil:
		return fmt.Sprintf("%s: %t becomes %t, and nothing is said to change", p, want.was, want.is)
	case found.Before.Allowed != want.was || found.After.Allowed != want.is:
		return fmt.Sprintf("%s: %t becomes %t, and is said to become %t", p, want.was, want.is, found.After.Allowed)
	}
	if what := named(found.Before, want.whyBefore); what != "" {
		return fmt.Sprintf("%s: before: %s", p, what)
	}
	if what := named(found.After, want.whyAfter); what != "" {
		return fmt.Sprintf("%s: after: %s", p, what)
	}
	return ""
}

// named says how a verdict that denies names another decider than all of the oracle's reasons that deny.
func named(v policytrial.Verdict, reasons []oracle.Reason) string {
	if v.Allowed {
		return ""
	}
	by := v.Deciders[0]
	for _, r := range reasons {
		switch {
		case r.Allowed:
		case r.Why == oracle.ByRule && strings.Replace(r.Policy, " ", "/", 1) == by.Origin.Policy && strconv.Itoa(r.Rule) == by.Origin.Rule:
			return ""
		case r.Why == oracle.Isolated &&
			slices.ContainsFunc(by.Isolating, func(k model.PolicyKey) bool { return strings.Replace(r.Policy, " ", "/", 1) == k.String() }):
			return ""
		}
	}
	return fmt.Sprintf("%+v is said to deny, and the oracle says %v", by, reasons)
}
