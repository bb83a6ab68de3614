package compile

import (
	"fmt"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// flatSet are the subnets of all flat Networks.
const flatSet = "flat"

// PriorityApart is that of the row by which a flat Network's pods reach each other, whatever keeps them from others.
const PriorityApart = PriorityPlatform + 1

// keepApart gives the rows by which the pods of flat Networks, which share one router, reach those of their own Network, nodes and
// infrastructure's pods, and nobody else: infrastructure's pods reach all.
func (b aclBuilder) keepApart() nb.Facts {
	var facts nb.Facts
	b.origin.Policy = nb.Apart
	for _, v4 := range []bool{true, false} {
		family, set := familyOf(v4), guardSetName(b.layout, flatSet, v4)
		facts.Rows = append(facts.Rows, guardSet(b.layout, flatSet, v4, b.owner))
		to := fmt.Sprintf("%s.dst == $%s", family, set)
		ways, infrastructure := GroupName(b.layout, WaysGroup()), GroupName(b.layout, InfrastructureGroup())
		pass := verdictOf(model.Pass)
		for i, rule := range []struct{ key, action, match string }{
			{"from-ways", pass, fmt.Sprintf("inport == @%s && %s", ways, to)},
			{"from-infrastructure", pass, fmt.Sprintf("inport == @%s && %s", infrastructure, to)},
			{"to-ways", pass, fmt.Sprintf("%s.dst == $%s_%s", family, ways, family)},
			{"to-infrastructure", pass, fmt.Sprintf("%s.dst == $%s_%s", family, infrastructure, family)},
			{"others", actionReject, to},
		} {
			facts.Add(b.acl(WaysGroup(), "apart/"+rule.key+"/"+family, model.PolicyEgress, rule.action, TierPlatform, PriorityPlatform-i,
				rule.match))
		}
	}
	return facts
}

// ownGroup are the ports that lead from a flat Network's switches to the router: what hangs on it is judged in these switches
// alone.
func ownGroup() Group { return "own" }

// Apart gives a flat Network's part of what keeps flat Networks apart: its subnets among those of all, and the row by which its
// own pods reach each other.
func Apart(l Layout) nb.Facts {
	home := Layout{Name: l.router().Name, UID: l.router().UID}
	owner := nb.NetworkOwner(l.Name)
	facts := groupRow(l, ownGroup(), owner)
	var own [2][]string
	for _, s := range l.Subnets {
		facts.Members = append(facts.Members, GroupPlace(GroupRef(l, ownGroup()), peerPortUUID(l, s.Name)))
		for _, r := range s.Ranges {
			v4 := r.CIDR.Addr().Is4()
			facts.Members = append(facts.Members, guardSetRef(home, flatSet, v4).Holds(nb.ColumnAddresses, r.CIDR.String()))
			family := 0
			if !v4 {
				family = 1
			}
			own[family] = append(own[family], r.CIDR.String())
		}
	}
	b := aclBuilder{layout: l, owner: owner, uid: l.UID, origin: nb.Origin{Policy: nb.Apart}}
	for i, ranges := range own {
		if len(ranges) > 0 {
			family := familyOf(i == 0)
			facts.Add(b.acl(ownGroup(), "apart/own/"+family, model.PolicyEgress, verdictOf(model.Pass), TierPlatform, PriorityApart,
				fmt.Sprintf("%s.dst == {%s}", family, strings.Join(ranges, ", "))))
		}
	}
	return facts
}
