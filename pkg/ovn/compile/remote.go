package compile

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// RemoteGroup are those pods of other Networks that the policies of one mean, in a direction, by the words of a group: in Ingress pods of
// Networks that reach it, and in Egress pods of those that it reaches.
//
// Their ports are not the Network's, so that this is no port group: it is two address sets, of IPv4 and IPv6, with the addresses
// by which the Network's pods see them. The sets are named as OVN names those of a port group.
func RemoteGroup(d model.Direction, g Group) Group { return Group("remote "+d.String()+" ") + g }

// RemoteSets gives the rows of a RemoteGroup, without the addresses, whose pods have the places.
func RemoteSets(l Layout, g Group) nb.Facts {
	var facts nb.Facts
	for _, v4 := range []bool{true, false} {
		facts.Rows = append(facts.Rows, guardSet(l, string(g), v4, GroupOwner(l, g)))
	}
	return facts
}

// RemotePlaces are the places of a pod in a RemoteGroup, by the addresses by which it is seen. One that the Network has itself may be
// another pod's there, and means that one.
func RemotePlaces(l Layout, g Group, seen []netip.Addr) []nb.Member {
	var out []nb.Member
	for _, a := range seen {
		if !l.Means(a) {
			out = append(out, guardPlaces(l, string(g), []netip.Addr{a})...)
		}
	}
	return out
}

// withRemote is a group of the Network's pods, and with it the group of those of other Networks that the rule means by the same words.
func (c policyCompiler) withRemote(g Group) []Group {
	if c.around.Remote[c.direction] {
		return []Group{g, RemoteGroup(c.direction, g)}
	}
	return []Group{g}
}

// remoteGroups adds the groups of pods of other Networks that a rule's peers need, and those of such pods with a port of a name.
func remoteGroups(groups map[Group]Members, p bounded, d model.Direction, rule int, in Around) {
	if !in.Remote[d] {
		return
	}
	r := p.Rules[d][rule]
	for _, peer := range r.Peers {
		if peer.Pods != nil {
			groups[RemoteGroup(d, PodsGroup(*peer.Pods))] = Members{Selector: peer.Pods.String(), Remote: true, Direction: d}
		}
	}
	if d == model.PolicyIngress {
		// What a policy's own pods receive goes to ports that they name themselves.
		return
	}
	for ask, pods := range asks(p.Policy, d, r) {
		for g, members := range namedGroups(pods, r, p.named[d][rule].remote[ask]) {
			members.Remote, members.Direction = true, d
			groups[RemoteGroup(d, g)] = members
		}
	}
}
