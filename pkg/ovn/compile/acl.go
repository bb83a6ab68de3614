package compile

import (
	"fmt"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// The tiers of ACLs, in the order in which OVN asks them. (ovn-nb(5), ACL tier: 0 to 3.)
const (
	// TierPlatform holds what must work whatever a policy says.
	TierPlatform = 0
	TierAdmin    = 1
	TierTenant   = 2
	TierBaseline = 3
)

// Priorities within a tier: the higher number is asked first.
const (
	// PriorityPlatform: nothing at that priority contradicts another.
	PriorityPlatform = 1000
	// PriorityGuard is above all that allows: what the guard drops, nobody may send.
	PriorityGuard = 2000
	// PriorityAllowed is above PriorityIsolated: what a NetworkPolicy allows, no other forbids.
	PriorityAllowed = 1001
	// PriorityIsolationLogged is above PriorityIsolated, so that a drop is logged if any policy that isolates the pod asks for
	// it.
	PriorityIsolationLogged = 1000
	PriorityIsolated        = 999
	// PriorityLast is below all others.
	PriorityLast = 0
	// PriorityFirst is that of the first rule of a ClusterNetworkPolicy of priority 0, the one that is asked first. Each
	// priority of the API has a range of MaxRules, the rules of one policy in their order.
	PriorityFirst = 32000
	// MaxRules is how many rules a ClusterNetworkPolicy may have in one direction, and MaxPriority the last priority.
	MaxRules    = 25
	MaxPriority = 1000
)

// priorityOf is the priority of a policy's rule in its tier.
func priorityOf(p model.Policy, rule int) int {
	if p.Tier == model.TierTenant {
		return PriorityAllowed
	}
	return PriorityFirst - int(min(max(p.Priority, 0), MaxPriority))*MaxRules - min(rule, MaxRules-1)
}

// tierOf is the tier of ACLs of a policy.
func tierOf(t model.Tier) int {
	switch t {
	case model.TierAdmin:
		return TierAdmin
	case model.TierTenant:
		return TierTenant
	}
	return TierBaseline
}

// verdictOf is OVN's word for a verdict. What is allowed is allowed with its answers.
func verdictOf(v model.Verdict) string {
	switch v {
	case model.Allow:
		return "allow-related"
	case model.Pass:
		return "pass"
	case model.Deny:
	}
	return "drop"
}

// verdictIn is the word for OVN's action: what is allowed with its answers is allowed.
func verdictIn(action string) string {
	word, _, _ := strings.Cut(action, "-")
	return word
}

// aclBuilder makes ACLs of one owner in one Network.
type aclBuilder struct {
	layout Layout
	owner  nb.Owner
	uid    string
	// origin is what they say of themselves: of it the policy and the rule.
	origin nb.Origin
	// dialled: what a pod sends is judged before load balancing, by what it dials.
	dialled bool
	// common: they are the same whichever Network's ports they judge, and name none.
	common bool
	// name is what logs say; meter, if not empty, bounds them: the ACLs write them.
	name, meter string
}

// acl gives one ACL of a port group. key tells it from the owner's others.
func (b aclBuilder) acl(g Group, key string, d model.Direction, action string, tier, priority int, match string) nb.Facts {
	row := b.row(key, d, action, tier, priority, match)
	return nb.Facts{Rows: []nb.Row{row}, Members: []nb.Member{GroupRef(b.layout, g).Holds(nb.ColumnACLs, row.UUID)}}
}

// uuid is that of an ACL.
func (b aclBuilder) uuid(key string) string {
	return nb.UUID(nb.TableACL, b.layout.UID+"/"+b.owner.String()+"/"+b.uid+"/"+key)
}

// row gives one ACL, which hangs on nothing yet.
//
// What a pod sends is judged after load balancing (apply-after-lb): by the endpoint that a Service led to, not by the
// Service's address, as the API means it; but for a builder of what is dialled. (ovn-nb(5).)
func (b aclBuilder) row(key string, d model.Direction, action string, tier, priority int, match string) *nb.ACL {
	origin := b.origin
	origin.Direction, origin.Verdict = d.String(), verdictIn(action)
	if !b.common {
		origin.Network = b.layout.Name
	}
	row := &nb.ACL{
		UUID: b.uuid(key), Tier: tier, Priority: priority,
		Direction: "to-lport", Match: match + origin.Comment(), Action: action,
		ExternalIDs: ids(b.owner, b.uid, b.layout.Name),
	}
	if b.name != "" {
		row.Name = new(b.name)
	}
	if d == model.PolicyEgress {
		row.Direction = "from-lport"
		if !b.dialled {
			row.Options = map[string]string{"apply-after-lb": "true"}
		}
	}
	if b.meter != "" {
		row.Log, row.Meter = true, new(b.meter)
	}
	return row
}

// fromItself lets a pod reach itself through a Service, a Gateway or its face, whatever a policy says: no pod is kept from
// itself. OVN turns such a packet back at the pod's own port before it judges what the pod sends, and gives it the virtual address as its
// source, which no rule means. It lets packets out where they came in only if they have flags.loopback, and nobody but OVN
// itself sets that. (ovn-northd(8), Ingress Table: Hairpin.)
func (b aclBuilder) fromItself(g Group) nb.Facts {
	return b.acl(g, "itself", model.PolicyIngress, verdictOf(model.Allow), TierPlatform, PriorityPlatform,
		fmt.Sprintf("outport == @%s && flags.loopback && ip", GroupName(b.layout, g)))
}

// fromNode lets in what the pod's own node sends, kubelet's probes above all, whatever a policy says. In a vpc Network it
// comes through the porthole, which stands on the pod's own node, under an address that nobody else has.
func (b aclBuilder) fromNode(g Group) nb.Facts {
	var facts nb.Facts
	for i, address := range model.OwnNodeAddresses() {
		family := [2]string{"ip4", "ip6"}[i]
		if !b.layout.Has(i == 0) {
			continue
		}
		facts.Add(b.acl(g, "node/"+family, model.PolicyIngress, verdictOf(model.Allow), TierPlatform, PriorityPlatform,
			fmt.Sprintf("outport == @%s && %s.src == %s", GroupName(b.layout, g), family, address)))
	}
	return facts
}
