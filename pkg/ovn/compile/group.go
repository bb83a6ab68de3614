package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Group says which ports of a Network are in a port group, in words. The same words are the same group, whoever uses it.
type Group string

// PodsGroup are the ports of the pods that a selector selects.
func PodsGroup(pods match.Pods) Group { return Group(pods.String()) }

// NamedGroup are those of them that have a port of that name, protocol and number.
func NamedGroup(pods match.Pods, port model.PodPort) Group {
	return Group(pods.String() + " port " + strconv.Quote(port.Name) + " " + string(port.Protocol) + " " + strconv.Itoa(int(port.Port)))
}

// ShareGroup are those of them that are a tenant's: of one whose pods give a name more numbers than a rule counts.
func ShareGroup(pods match.Pods, tenant string) Group {
	return Group(pods.String() + " of " + strconv.Quote(tenant))
}

// ShareNamedGroup are those of a NamedGroup that are a tenant's.
func ShareNamedGroup(pods match.Pods, port model.PodPort, tenant string) Group {
	return NamedGroup(pods, port) + Group(" of "+strconv.Quote(tenant))
}

// IsolatedGroup are the ports of pods that have in that direction only what a NetworkPolicy allows.
func IsolatedGroup(d model.Direction) Group { return Group("isolated " + d.String()) }

// JudgedGroup are the ports of pods about which any policy decides anything.
//
// Its ACL, which allows, is what makes OVN follow connections at their switch. Where all ACLs of a switch drop, it does
// not, and a pod that may send nothing could not even answer. (ovn-northd(8), Ingress Table: from-lport Pre-ACLs.)
func JudgedGroup() Group { return "judged" }

// GroupName is the name of the port group in a Network: one that OVN takes for a name, with enough of a digest that nobody
// finds words with the same one.
func GroupName(l Layout, g Group) string {
	sum := sha256.Sum256([]byte(l.UID + "\x00" + string(g)))
	return "atoll_" + hex.EncodeToString(sum[:16])
}

// GroupRef points at the port group's row.
func GroupRef(l Layout, g Group) nb.Ref {
	return nb.Ref{Table: nb.TablePortGroup, UUID: nb.UUID(nb.TablePortGroup, GroupName(l, g))}
}

// GroupOwner is the owner of the port group's rows.
func GroupOwner(l Layout, g Group) nb.Owner { return nb.PortGroupOwner(l.Name, GroupName(l, g)) }

// PortGroup gives the rows of a port group, without its ports, whose pods have the places; and what is the same for all
// its ports: pods that are isolated receive or send nothing unless a policy says otherwise, and pods that are judged hear
// themselves and their own node.
func PortGroup(l Layout, g Group) nb.Facts {
	name, owner := GroupName(l, g), GroupOwner(l, g)
	facts := groupRow(l, g, owner)
	b := aclBuilder{layout: l, owner: owner, uid: l.UID, name: string(g), origin: nb.Origin{Policy: nb.Isolation}}
	switch g {
	case IsolatedGroup(model.PolicyIngress):
		facts.Add(b.acl(g, "isolated", model.PolicyIngress, verdictOf(model.Deny), TierTenant, PriorityIsolated, "outport == @"+name+" && ip"))
	case IsolatedGroup(model.PolicyEgress):
		facts.Add(b.acl(g, "isolated", model.PolicyEgress, verdictOf(model.Deny), TierTenant, PriorityIsolated, "inport == @"+name+" && ip"))
	case JudgedGroup():
		b.origin.Policy = nb.Itself
		facts.Add(b.fromItself(g))
		facts.Add(b.askEachTier(g))
		// In the default Network each node has an ACL of its own, see NodeAccess.
		if l.Faces {
			b.origin.Policy = nb.OwnNode
			facts.Add(b.fromNode(g))
		}
	}
	return facts
}

// askEachTier has what no policy allows any more judged in each tier.
//
// OVN marks a connection that an ACL has dropped. A packet of such a connection that no ACL of a tier is about is let
// through at once, and the mark goes, although ACLs of later tiers would drop it: every second packet would pass. So each
// tier but the last passes it on, and the last one, in which nothing forbids it, takes the mark away as OVN means it.
// (ovn-northd(8), ls_out_acl_eval: the flow of priority 1 for ct_mark.blocked.) What pods send is judged after load
// balancing, where OVN has no such flow.
func (b aclBuilder) askEachTier(g Group) nb.Facts {
	var facts nb.Facts
	b.origin.Policy = nb.EachTier
	match := "outport == @" + GroupName(b.layout, g) + " && ct.est && ct_mark.blocked == 1"
	for tier := TierPlatform; tier <= TierBaseline; tier++ {
		verdict := model.Pass
		if tier == TierBaseline {
			verdict = model.Allow
		}
		facts.Add(b.acl(g, "tier/"+strconv.Itoa(tier), model.PolicyIngress, verdictOf(verdict), tier, PriorityLast, match))
	}
	return facts
}

// groupRow gives the row of a port group alone.
func groupRow(l Layout, g Group, owner nb.Owner) nb.Facts {
	row := &nb.PortGroup{UUID: GroupRef(l, g).UUID, Name: GroupName(l, g), ExternalIDs: ids(owner, l.UID, l.Name)}
	row.ExternalIDs[nb.KeySelector] = string(g)
	return nb.Facts{Rows: []nb.Row{row}}
}

// GroupPlace is a port's place in a port group.
func GroupPlace(group nb.Ref, port string) nb.Member {
	return group.Holds(nb.ColumnPorts, port)
}
