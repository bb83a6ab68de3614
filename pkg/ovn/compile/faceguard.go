package compile

import (
	"fmt"
	"net/netip"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// InfrastructureGroup are the ports of infrastructure's pods in the default Network.
func InfrastructureGroup() Group { return "infrastructure" }

// WaysGroup are the ports of the default Network's switches that are no pod's: those of nodes, and those that lead to its router.
// What comes in there has been judged where a pod sent it, or is a node's.
func WaysGroup() Group { return "ways" }

// FaceGuardOwner is the owner of the guard's rows.
func FaceGuardOwner(l Layout) nb.Owner { return GroupOwner(l, WaysGroup()) }

// FaceGuard gives the rows by which the default Network l keeps its pods from the faces of others: their number depends on nothing
// but the IP families. Faces of Networks that say something else than the rest are in address sets (FacePlaces).
//
// What a pod sends is judged after load balancing: a Service that leads to a face, whoever wrote its endpoints, is judged as the
// face itself. What OVN refuses there is not told, since the client has dialled another address; so the virtual addresses of
// Services that lead to nothing but faces are judged before load balancing, too (ServicePlaces).
//
// A pod of the default Network that a face has dialled must be able to answer it. OVN follows connections at a switch if an ACL
// there allows something; what a pod says to itself is allowed anyway (fromItself). Answers then pass before any ACL. (ovn-northd(8),
// Ingress Table: from-lport ACL evaluation after LB.)
//
// apart: there are other flat Networks, whose pods are kept from this one's as this one's are from theirs (Apart).
func FaceGuard(l Layout, faces []netip.Prefix, apart bool) nb.Facts {
	owner := FaceGuardOwner(l)
	var facts nb.Facts
	for _, g := range []Group{WaysGroup(), InfrastructureGroup()} {
		facts.Add(groupRow(l, g, owner))
	}
	b := aclBuilder{layout: l, owner: owner, uid: l.UID, origin: nb.Origin{Policy: nb.Itself}}
	facts.Add(
		b.acl(WaysGroup(), "itself", model.PolicyIngress, verdictOf(model.Allow), TierPlatform, PriorityPlatform, "flags.loopback && ip"))
	if apart {
		facts.Add(b.keepApart())
	}
	b.origin.Policy = nb.Faces
	for _, r := range faces {
		v4 := r.Addr().Is4()
		for _, set := range guardSets {
			facts.Rows = append(facts.Rows, guardSet(l, set, v4, owner))
		}
		in := func(set string) string { return "$" + guardSetName(l, set, v4) }
		facts.Add(b.faceGuard(r.String(), in(facesClosed), in(facesOpen), familyOf(v4)))
		b.dialled = true
		facts.Add(b.faceGuard(in(servicesJudged), in(servicesClosed), "", familyOf(v4)))
		b.dialled = false
	}
	return facts
}

// faceGuard gives the rows that refuse what goes to some addresses but from infrastructure, to the closed ones altogether, and let
// pass what goes to the open ones. What passes is left to the tiers of policies.
func (b aclBuilder) faceGuard(judged, closed, open, family string) nb.Facts {
	to := func(addresses string) string { return family + ".dst == " + addresses }
	from := func(g Group, addresses string) string {
		return fmt.Sprintf("inport == @%s && %s", GroupName(b.layout, g), to(addresses))
	}
	pass := verdictOf(model.Pass)
	rules := []struct{ key, action, match string }{
		{"ways", pass, from(WaysGroup(), judged)},
		{"closed", actionReject, to(closed)},
		{"open", pass, to(open)},
		{"infrastructure", pass, from(InfrastructureGroup(), judged)},
		{"judged", actionReject, to(judged)},
	}
	stage := "faces"
	if b.dialled {
		stage = "services"
	}
	var facts nb.Facts
	for i, r := range rules {
		if r.key != "open" || open != "" {
			facts.Add(b.acl(WaysGroup(), stage+"/"+r.key+"/"+family, model.PolicyEgress, r.action, TierPlatform, PriorityPlatform-i, r.match))
		}
	}
	return facts
}

// actionReject is OVN's word for refusing so that the sender is told. (ovn-nb(5), ACL.)
const actionReject = "reject"

// WayPlaces are the places of the ports that lead from a flat Network's switches to the default Network's router.
func WayPlaces(l Layout) nb.Facts {
	var facts nb.Facts
	home := Layout{Name: l.router().Name, UID: l.router().UID}
	for _, s := range l.Subnets {
		port := peerPortUUID(l, s.Name)
		facts.Members = append(facts.Members,
			GroupPlace(GroupRef(home, WaysGroup()), port),
			// A name of a port group is known on a switch only where the group has a port. (ovn-sb(5), Port_Group.)
			GroupPlace(GroupRef(home, InfrastructureGroup()), port))
	}
	return facts
}

// NodeWay is the place of a node's port.
func NodeWay(l Layout, node string) nb.Member {
	return GroupPlace(GroupRef(l, WaysGroup()), nodePortUUID(l, node))
}

// The address sets of the guard.
const (
	// facesClosed are those of Networks that no pod of the default Network reaches, and facesOpen those that every one reaches.
	facesClosed = "faces closed"
	facesOpen   = "faces open"
	// servicesJudged are the virtual addresses that lead to nothing but faces, and servicesClosed those to closed ones.
	servicesJudged = "services"
	servicesClosed = "services closed"
)

var guardSets = []string{facesClosed, facesOpen, servicesJudged, servicesClosed}

// FacePlaces are the places of a pod's faces in the address sets of the default Network l, by what its Network says.
func FacePlaces(l Layout, who model.InfraIngress, faces []netip.Addr) []nb.Member {
	switch who {
	case model.InfraIngressNone:
		return guardPlaces(l, facesClosed, faces)
	case model.InfraIngressAll:
		return guardPlaces(l, facesOpen, faces)
	default:
		return nil
	}
}

// ServicePlaces are those of the virtual addresses that lead to nothing but faces of Networks that say so.
func ServicePlaces(l Layout, who model.InfraIngress, vips []netip.Addr) []nb.Member {
	switch who {
	case model.InfraIngressNone:
		return append(guardPlaces(l, servicesJudged, vips), guardPlaces(l, servicesClosed, vips)...)
	case model.InfraIngressAll:
		return nil
	default:
		return guardPlaces(l, servicesJudged, vips)
	}
}

func guardPlaces(l Layout, set string, addresses []netip.Addr) []nb.Member {
	var out []nb.Member
	for _, a := range addresses {
		out = append(out, guardSetRef(l, set, a.Is4()).Holds(nb.ColumnAddresses, a.String()))
	}
	return out
}

func guardSetName(l Layout, set string, v4 bool) string {
	return GroupName(l, Group(set)) + "_" + familyOf(v4)
}

func guardSetRef(l Layout, set string, v4 bool) nb.Ref {
	return nb.Ref{Table: nb.TableAddressSet, UUID: nb.UUID(nb.TableAddressSet, guardSetName(l, set, v4))}
}

// guardSet gives the row of a set, without its addresses.
func guardSet(l Layout, set string, v4 bool, owner nb.Owner) *nb.AddressSet {
	row := &nb.AddressSet{UUID: guardSetRef(l, set, v4).UUID, Name: guardSetName(l, set, v4), ExternalIDs: ids(owner, l.UID, l.Name)}
	row.ExternalIDs[nb.KeySelector] = set
	return row
}
