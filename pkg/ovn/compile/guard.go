package compile

import (
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// forged are the packets by which a pod could make itself its neighbours' router or DHCP server. A container takes none of them from
// anybody; a virtual machine does.
//
// They are known by what their receiver goes by: a client of DHCP takes what comes to its port, whatever port it came from. No
// match asks who sent them, since nobody in a subnet may: its router redirects nobody, and pods have their addresses from
// Kubernetes.
func forged() []string {
	return []string{
		// Redirects. Router advertisements pass all access lists of OVN's: the agent drops them. (RFC 4861, RFC 792.)
		"icmp6.type == 137", "icmp4.type == 5",
		// For clients of DHCP. (RFC 2131, RFC 8415.)
		"ip4 && udp.dst == 68", "ip6 && udp.dst == 546",
		// The first fragment of IPv6 need not hold what says that it is any of these, or a router advertisement; for receivers the
		// second does. (RFC 7112.) Those of ICMPv6 come from link-local addresses only, which need no fragments.
		"ip6.src == fe80::/10 && ip.is_frag",
	}
}

// guard gives the ACL by which the switches of a Network's subnets drop what is forged, at the port that sends it. It is one row, however
// many switches and pods there are.
//
// All its verdicts are drops: it makes OVN follow no connection. Its origin names no Network, so that the match is the same in all of
// them and OVN has its two logical flows once. What it drops on a node is counted for all of them together.
func guard(l Layout) nb.Facts {
	if len(l.Subnets) == 0 {
		return nb.Facts{}
	}
	name, origin := nb.Guard, nb.Origin{Policy: nb.Guard, Direction: model.PolicyEgress.String(), Verdict: verdictOf(model.Deny)}
	row := &nb.ACL{
		UUID: nb.UUID(nb.TableACL, l.UID+"/guard"), Tier: TierPlatform, Priority: PriorityGuard, Direction: "from-lport",
		Match: "(" + strings.Join(forged(), ") || (") + ")" + origin.Comment(), Action: verdictOf(model.Deny), Name: &name, ExternalIDs: idsOf(l),
	}
	facts := nb.Facts{Rows: []nb.Row{row}}
	for _, s := range l.Subnets {
		facts.Members = append(facts.Members, switchRef(l, s.Name).Holds(nb.ColumnACLs, row.UUID))
	}
	return facts
}
