package compile

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Peers are what a Network has to do with others. By faces, addresses are dialled and seen by way of the node, so that nothing joins the
// Networks' routers. Joined ones know each other by their own addresses, too.
type Peers struct {
	// Offers: pods of other Networks reach this one's.
	Offers bool
	// Uses are the Networks whose pods this one's reach, sorted by name.
	Uses []Home
	// Addressed are those of them whose pods this one's dial by their own addresses, too, though no routers are joined, sorted by name.
	Addressed []Home
	// Ranged are those of Uses whose Services this one's dial by addresses of these Networks' own ranges, sorted by name.
	Ranged []Home
	// OffersRanges: pods of other Networks may dial this one's Services so.
	OffersRanges bool
	// OffersAddresses: pods of other Networks dial this one's so.
	OffersAddresses bool
	// Joined are the Networks whose routers are joined to this one's, sorted by name.
	Joined []Joint
}

// None reports whether it has nothing to do with others.
func (p Peers) None() bool { return !p.Offers && len(p.Uses) == 0 }

// Equal reports whether two are the same.
func (p Peers) Equal(o Peers) bool {
	return p.Offers == o.Offers && p.OffersAddresses == o.OffersAddresses && p.OffersRanges == o.OffersRanges &&
		slices.Equal(p.Uses, o.Uses) && slices.Equal(p.Addressed, o.Addressed) &&
		slices.Equal(p.Ranged, o.Ranged) && slices.EqualFunc(p.Joined, o.Joined, func(a, b Joint) bool {
		return a.Home == b.Home && a.Comes == b.Comes && slices.Equal(a.Ranges, b.Ranges)
	})
}

// joinedTo reports whether the router of another Network is joined to this one's.
func (p Peers) joinedTo(other Home) bool {
	return slices.ContainsFunc(p.Joined, func(j Joint) bool { return j.Home == other })
}

// comes reports whether pods of any Network that is joined to it reach this one's.
func (p Peers) comes() bool {
	return slices.ContainsFunc(p.Joined, func(j Joint) bool { return j.Comes })
}

// ConsumersGroup holds the ACLs that a Network has for those that use it. It has no port: they judge where they hang on a switch, too.
func ConsumersGroup() Group { return "for consumers" }

// The address sets of a Network that others reach.
const (
	// facesOffered are the faces of its own pods, and FacesTaken those of the pods that reach them.
	facesOffered = "faces offered"
	FacesTaken   = "faces taken"
)

// PeerRows give the rows by which pods of other Networks reach those of l by their faces, and its pods those of others. faces are
// all faces' ranges. Their number depends on nothing but the IP families: what a Network that uses l needs, l has (forConsumers),
// and only hangs it on its switches.
//
// Both ends judge, each packet, by its destination and its source: what a pod sends to a face passes if that is one of a Network that
// its own uses, and what comes from a face if it is a pod's that may; from any other face nothing comes in to any Network, with
// peers or without (strangers). What passes is left to the tiers of policies. Answers pass before any of these rows, as in FaceGuard.
func PeerRows(l Layout, peers Peers, faces []netip.Prefix) nb.Facts {
	b := aclBuilder{layout: l, owner: nb.NetworkOwner(l.Name), uid: l.UID, origin: nb.Origin{Policy: nb.Peers}}
	var facts nb.Facts
	if peers.Offers {
		facts.Add(b.forConsumers(faces))
		facts.Members = append(facts.Members, l.hangs(lentBy(Home{l.Name, l.UID}).uuid(lentItself))...)
		for _, r := range faces {
			v4 := r.Addr().Is4()
			family := familyOf(v4)
			for _, set := range []string{facesOffered, FacesTaken} {
				facts.Rows = append(facts.Rows, guardSet(l, set, v4, b.owner))
			}
			facts.Add(
				b.onSwitches(b.row("peers/taken/"+family, model.PolicyIngress, verdictOf(model.Pass), TierPlatform, priorityTaken,
					family+".src == $"+guardSetName(l, FacesTaken, v4))))
		}
	}
	for i, provider := range peers.Uses {
		lent := lentBy(provider)
		// What does not tell providers apart is wanted once, and the first one's will do.
		if i == 0 && !peers.Offers {
			facts.Members = append(facts.Members, l.hangs(lent.uuid(lentItself))...)
		}
		for _, r := range faces {
			family := familyOf(r.Addr().Is4())
			facts.Members = append(facts.Members, l.hangs(lent.uuid(lentUses+family))...)
			if i == 0 {
				facts.Members = append(facts.Members, l.hangs(lent.uuid(lentTo+family))...)
			}
		}
	}
	for _, provider := range peers.Ranged {
		facts.Members = append(facts.Members, l.hangs(unservedOwn(provider.UID))...)
	}
	for _, way := range peers.Ways(l) {
		facts.Rows = append(facts.Rows, offeredGroup(way))
	}
	if peers.OffersAddresses {
		facts.Rows = append(facts.Rows, offeredGroup(addressed(l)))
	}
	for _, j := range peers.Joined {
		facts.Add(b.joint(l, j))
	}
	for _, s := range l.Subnets {
		for _, provider := range peers.Uses {
			of := Layout{Name: provider.Name, UID: provider.UID}
			known := Offered(of)
			if peers.joinedTo(provider) {
				known = Joined(of)
			}
			facts.Members = append(facts.Members, switchRef(l, s.Name).Holds(nb.ColumnLoadBalancerGroups, groupRef(known).UUID))
		}
		for _, provider := range peers.Ranged {
			if !peers.joinedTo(provider) {
				group := groupRef(Ranged(Layout{Name: provider.Name, UID: provider.UID}))
				facts.Members = append(facts.Members, switchRef(l, s.Name).Holds(nb.ColumnLoadBalancerGroups, group.UUID))
			}
		}
		for _, provider := range peers.Addressed {
			group := groupRef(addressed(Layout{Name: provider.Name, UID: provider.UID}))
			facts.Members = append(facts.Members, switchRef(l, s.Name).Holds(nb.ColumnLoadBalancerGroups, group.UUID))
		}
	}
	return facts
}

// The ACLs that a Network has for those that use it.
const (
	lentItself = "consumers/itself"
	lentUses   = "consumers/uses/"
	lentTo     = "consumers/to/"
)

// lentBy makes the ACLs that a Network has for those that use it.
func lentBy(h Home) aclBuilder {
	return aclBuilder{layout: Layout{Name: h.Name, UID: h.UID}, owner: nb.NetworkOwner(h.Name), uid: h.UID, common: true}
}

// forConsumers gives what the switches need of a Network that uses the builder's. They are the provider's rows, and the same for
// all who use it, since ovn-northd computes all logical flows of all Networks anew when an ACL or a port group comes, goes or
// changes; where an ACL that is there hangs, or hangs no more, it computes that switch alone. None names a consumer, so that OVN
// has their logical flows once.
func (b aclBuilder) forConsumers(faces []netip.Prefix) nb.Facts {
	group := ConsumersGroup()
	facts := groupRow(b.layout, group, b.owner)
	lent := lentBy(Home{b.layout.Name, b.layout.UID})
	lent.origin.Policy = nb.Itself
	// It is in the last tier, so that there is more than one: OVN follows what a tier has no row about, or allows. What passes in a switch's
	// only tier it lets in without following the connection, and judges the answers like connections of the pod's own. Policies, which could
	// forbid it before, allow it in the first tier (fromItself).
	facts.Add(lent.acl(group, lentItself, model.PolicyIngress, verdictOf(model.Allow), TierBaseline, PriorityFirst+1, "flags.loopback && ip"))
	lent.origin.Policy = nb.Peers
	for _, r := range faces {
		v4 := r.Addr().Is4()
		family := familyOf(v4)
		to := family + ".dst == "
		facts.Add(lent.acl(group, lentUses+family, model.PolicyEgress, verdictOf(model.Pass), TierPlatform, PriorityPlatform-1,
			to+"$"+guardSetName(b.layout, facesOffered, v4)))
		facts.Add(lent.acl(group, lentTo+family, model.PolicyEgress, actionReject, TierPlatform, PriorityPlatform-2, to+r.String()))
	}
	return facts
}

// onSwitches has an ACL of the builder's hang on all of its Network's switches.
func (b aclBuilder) onSwitches(row *nb.ACL) nb.Facts {
	return nb.Facts{Rows: []nb.Row{row}, Members: b.layout.hangs(row.UUID)}
}

// hangs are the places of an ACL on the switches of a Network's subnets.
func (l Layout) hangs(acl string) []nb.Member {
	var out []nb.Member
	for _, s := range l.Subnets {
		out = append(out, switchRef(l, s.Name).Holds(nb.ColumnACLs, acl))
	}
	return out
}

// offeredGroup gives the group of the load balancers that others know of a Network.
func offeredGroup(offered Layout) nb.Row {
	return &nb.LoadBalancerGroup{UUID: groupRef(offered).UUID, Name: nb.GroupName(offered.Name, offered.UID)}
}

// Offers are what a Network's offer needs in each way that there is, by owners, and can do without for a while; nothing in a way
// that is not asked for.
//
// A load balancer that was deleted comes back ten seconds later. What lets pods pass, and keeps them apart, must not wait for it.
func Offers(l Layout, peers Peers) map[nb.Owner]nb.Facts {
	out := map[nb.Owner]nb.Facts{}
	for name, way := range map[string]struct {
		as     Layout
		wanted bool
	}{"offered": {Offered(l), peers.Offers}, "ranges": {Ranged(l), peers.OffersRanges}, "joined": {Joined(l), peers.comes()}} {
		owner := nb.OfferOwner(l.Name, name)
		if out[owner] = (nb.Facts{}); !way.wanted {
			continue
		}
		facts := retainLoadBalancer(way.as)
		for _, row := range facts.Rows {
			row.(*nb.LoadBalancer).ExternalIDs = ids(owner, l.UID, l.Name)
		}
		out[owner] = facts
	}
	owner := nb.OfferOwner(l.Name, addressedName)
	if out[owner] = (nb.Facts{}); peers.OffersAddresses {
		out[owner] = addressBalancers(l, owner)
	}
	return out
}

// offeredSuffix ends the name of what others know of a Network. No Network's name has a colon.
const offeredSuffix = ":offered"

// Offered stands for a Network in the rows of Services that others know of it by their ClusterIPs: their load balancers are one
// group, once for all who use the Network, and lead to faces.
func Offered(l Layout) Layout {
	return Layout{Name: l.Name + offeredSuffix, UID: l.UID + "/offered", offered: true}
}

// rangesSuffix ends the name of what others know of a Network that dial addresses of its own ranges. No Network's name has a colon.
const rangesSuffix = ":ranges"

// Ranged stands for a Network in the rows by which other Networks reach its Services and Gateways at addresses of its own ranges.
// It is to these addresses what Offered is to the others.
func Ranged(l Layout) Layout {
	return Layout{Name: l.Name + rangesSuffix, UID: l.UID + "/ranges", offered: true}
}

// ByRanges reports whether others know the Network by addresses of its own ranges alone: it is what Ranged gives.
func (l Layout) ByRanges() bool { return l.offered && strings.HasSuffix(l.Name, rangesSuffix) }

// ByClusterIPs reports whether others know the Network by ClusterIPs alone: it is what Offered gives.
func (l Layout) ByClusterIPs() bool { return l.offered && strings.HasSuffix(l.Name, offeredSuffix) }

// PeerPlaces are the places of a pod's faces: among those of its own Network, if that is offered to others, and among those that
// the Networks take which it uses.
func PeerPlaces(l Layout, peers Peers, faces []netip.Addr) []nb.Member {
	var out []nb.Member
	if peers.Offers {
		out = append(out, guardPlaces(l, facesOffered, faces)...)
	}
	for _, provider := range peers.Uses {
		out = append(out, guardPlaces(Layout{Name: provider.Name, UID: provider.UID}, FacesTaken, faces)...)
	}
	return out
}
