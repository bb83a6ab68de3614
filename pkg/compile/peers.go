package compile

import (
	"fmt"
	"net/netip"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// Peers are what a Network has to do with others by faces. Addresses are dialled and seen by way of the node, so that nothing joins the
// Networks' routers.
type Peers struct {
	// Offers: pods of other Networks reach this one's.
	Offers bool
	// Uses are the Networks whose pods this one's reach, sorted by name.
	Uses []Home
}

// None reports whether it has nothing to do with others.
func (p Peers) None() bool { return !p.Offers && len(p.Uses) == 0 }

// PeersGroup are the ports that lead from a Network's switches to its router: what is judged there concerns all its pods.
func PeersGroup() Group { return "peers" }

// The address sets of a Network that others reach.
const (
	// facesOffered are the faces of its own pods, and FacesTaken those of the pods that reach them.
	facesOffered = "faces offered"
	FacesTaken   = "faces taken"
)

// PeerRows give the rows by which pods of other Networks reach those of l by their faces, and its pods those of others. faces are all
// faces' ranges. Their number depends on nothing but the IP families and how many Networks l uses.
//
// Both ends judge, each packet, by its destination and its source: what a pod sends to a face passes if that is one of a Network that
// its own uses, and what comes from a face if it is a pod's that may. What passes is left to the tiers of policies. Answers pass before any
// of these rows, as in FaceGuard. For that OVN has to follow what came in: what passes in the last tier that a switch has rows of it lets
// through without. So there is a row in a later one, whether or not there are policies.
func PeerRows(l Layout, peers Peers, faces []netip.Prefix) nb.Facts {
	owner := nb.NetworkOwner(l.Name)
	facts := groupRow(l, PeersGroup(), owner)
	b := aclBuilder{layout: l, owner: owner, uid: l.UID, origin: nb.Origin{Policy: nb.Itself}}
	for _, s := range l.Subnets {
		facts.Members = append(facts.Members, GroupPlace(GroupRef(l, PeersGroup()), peerPortUUID(l, s.Name)))
	}
	for i, tier := range []int{TierPlatform, TierBaseline} {
		facts.Add(b.acl(PeersGroup(), []string{"peers/itself", "peers/followed"}[i], model.PolicyIngress, verdictOf(model.Allow), tier, PriorityPlatform, "flags.loopback && ip"))
	}
	b.origin.Policy = nb.Peers
	pass := verdictOf(model.Pass)
	for _, r := range faces {
		v4 := r.Addr().Is4()
		family := familyOf(v4)
		if peers.Offers {
			for _, set := range []string{facesOffered, FacesTaken} {
				facts.Rows = append(facts.Rows, guardSet(l, set, v4, owner))
			}
			from := family + ".src == "
			facts.Add(b.acl(PeersGroup(), "peers/taken/"+family, model.PolicyIngress, pass, TierPlatform, PriorityPlatform-1, from+"$"+guardSetName(l, FacesTaken, v4)))
			facts.Add(b.acl(PeersGroup(), "peers/from/"+family, model.PolicyIngress, verdictOf(model.Deny), TierPlatform, PriorityPlatform-2, from+r.String()))
		}
		if len(peers.Uses) == 0 {
			continue
		}
		to := family + ".dst == "
		for _, provider := range peers.Uses {
			of := Layout{Name: provider.Name, UID: provider.UID}
			facts.Add(b.acl(PeersGroup(), fmt.Sprintf("peers/uses/%s/%s", provider.UID, family), model.PolicyEgress, pass, TierPlatform, PriorityPlatform-1, to+"$"+guardSetName(of, facesOffered, v4)))
		}
		facts.Add(b.acl(PeersGroup(), "peers/to/"+family, model.PolicyEgress, actionReject, TierPlatform, PriorityPlatform-2, to+r.String()))
	}
	if peers.Offers {
		offered := Offered(l)
		facts.Rows = append(facts.Rows, &nb.LoadBalancerGroup{UUID: groupRef(offered).UUID, Name: nb.GroupName(offered.Name, offered.UID)})
		retained := retainLoadBalancer(offered)
		for _, row := range retained.Rows {
			row.(*nb.LoadBalancer).ExternalIDs = idsOf(l)
		}
		facts.Add(retained)
	}
	for _, s := range l.Subnets {
		for _, provider := range peers.Uses {
			of := Offered(Layout{Name: provider.Name, UID: provider.UID})
			facts.Members = append(facts.Members, switchRef(l, s.Name).Holds(nb.ColumnLoadBalancerGroups, groupRef(of).UUID))
		}
	}
	return facts
}

// offeredSuffix ends the name of what others know of a Network. No Network's name has a colon.
const offeredSuffix = ":offered"

// Offered stands for a Network in the rows of Services that others know of it: their load balancers are one group, once for all who
// use the Network, and lead to faces.
func Offered(l Layout) Layout {
	return Layout{Name: l.Name + offeredSuffix, UID: l.UID + "/offered", offered: true}
}

// PeerPlaces are the places of a pod's faces: among those of its own Network, if that is offered to others, and among those that the Networks
// take which it uses.
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
