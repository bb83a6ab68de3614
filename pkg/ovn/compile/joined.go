package compile

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Joint is another Network whose router is joined to a Network's.
type Joint struct {
	Home
	// Ranges are those of its subnets that others reach.
	Ranges []netip.Prefix
	// Comes: its pods reach this Network's. The other way says Peers.Uses.
	Comes bool
}

// ownRoutes is the table of routes for what comes from elsewhere than the Network's own subnets. It has none, so that a router leads such
// packets to its own subnets, and never on. (ovn-nb(5), Logical_Router_Port: options:route_table.)
const ownRoutes = "own"

// The two ends of what joins two routers. All pairs have the same addresses: each router asks for them at one port.
var (
	joint4 = [2]netip.Addr{netip.MustParseAddr("169.254.101.1"), netip.MustParseAddr("169.254.101.2")}
	joint6 = [2]netip.Addr{netip.MustParseAddr("fe80::a701:a"), netip.MustParseAddr("fe80::a701:b")}
)

// joint gives a Network's end of what joins its router to another's: a port without a switch, the routes to the other's subnets,
// and what keeps others than the other's pods out. It is of use only together with the other end, and each end comes and goes as
// one.
//
// The router asks who a packet claims to be from: a pod cannot lie about it, but routers between could lead on what is not meant.
func (b aclBuilder) joint(l Layout, j Joint) nb.Facts {
	key := func(name string) string { return l.UID + "/:to/" + j.UID + "/" + name }
	own, other := 0, 1
	if l.Name > j.Name {
		own, other = 1, 0
	}
	name, peer := model.JointPortName(l.Name, j.Name), model.JointPortName(j.Name, l.Name)
	port := &nb.LogicalRouterPort{
		UUID: nb.UUID(nb.TableLogicalRouterPort, key("port")),
		Name: name,
		MAC:  digestMAC(macRouter, key("port")),
		Networks: []string{
			netip.PrefixFrom(joint4[own], joint4[own].BitLen()).String(),
			netip.PrefixFrom(joint6[own], 64).String(),
		},
		Peer:        &peer,
		Options:     map[string]string{"route_table": ownRoutes},
		ExternalIDs: idsOf(l),
	}
	facts := nb.Facts{Rows: []nb.Row{port}, Members: []nb.Member{routerRef(l).Holds(nb.ColumnPorts, port.UUID)}}
	for _, r := range j.Ranges {
		next := joint4[other]
		if r.Addr().Is6() {
			next = joint6[other]
		}
		route := &nb.StaticRoute{
			UUID: nb.UUID(nb.TableStaticRoute, key(r.String())), IPPrefix: r.String(), Nexthop: next.String(), OutputPort: &name,
			ExternalIDs: idsOf(l),
		}
		facts.Rows = append(facts.Rows, route)
		facts.Members = append(facts.Members, routerRef(l).Holds(nb.ColumnStaticRoutes, route.UUID))
	}
	for _, v4 := range []bool{true, false} {
		family := familyOf(v4)
		from := rangesOf(j.Ranges, v4)
		match := fmt.Sprintf("inport == %q && %s", name, family)
		if len(from) > 0 {
			match = fmt.Sprintf("inport == %q && %s.src != {%s}", name, family, strings.Join(from, ", "))
		}
		policy := &nb.RouterPolicy{
			UUID: nb.UUID(nb.TableRouterPolicy, key("from/"+family)), Priority: PriorityPlatform, Match: match, Action: verdictOf(model.Deny),
			ExternalIDs: idsOf(l),
		}
		facts.Rows = append(facts.Rows, policy)
		facts.Members = append(facts.Members, routerRef(l).Holds(nb.ColumnPolicies, policy.UUID))
		if !j.Comes && len(from) > 0 {
			facts.Add(b.onSwitches(b.row("peers/answers/"+j.UID+"/"+family, model.PolicyIngress, verdictOf(model.Deny), TierPlatform,
				PriorityPlatform-2,
				fmt.Sprintf("%s.src == {%s}", family, strings.Join(from, ", ")))))
		}
	}
	return facts
}

// rangesOf are those of one IP family, as OVN reads them.
func rangesOf(ranges []netip.Prefix, v4 bool) (out []string) {
	for _, r := range ranges {
		if r.Addr().Is4() == v4 {
			out = append(out, r.String())
		}
	}
	return out
}

// joinedSuffix ends the name of what Networks know of a Network that are joined to it. No Network's name has a colon.
const joinedSuffix = ":joined"

// Joined stands for a Network in the rows of Services that those know of it which are joined to it and whose pods reach its own:
// as Offered, but their load balancers lead to pods' own addresses.
func Joined(l Layout) Layout {
	return Layout{Name: l.Name + joinedSuffix, UID: l.UID + "/joined", offered: true}
}

// ByOwnAddresses reports whether others know the Network by its pods' own addresses: it is what Joined gives.
func (l Layout) ByOwnAddresses() bool { return l.offered && strings.HasSuffix(l.Name, joinedSuffix) }

// itself is the name of the Network that a layout stands for.
func (l Layout) itself() string {
	name, _, _ := strings.Cut(l.Name, ":")
	return name
}

// Ways are how others know a Network: by faces, with ClusterIPs and with addresses of its own ranges, and those that are joined
// to it by own addresses; none that nobody needs.
func (p Peers) Ways(l Layout) (out []Layout) {
	if p.Offers {
		out = append(out, Offered(l))
	}
	if p.OffersRanges {
		out = append(out, Ranged(l))
	}
	if p.comes() {
		out = append(out, Joined(l))
	}
	return out
}
