package compile

import (
	"net/netip"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Priorities of what refuses datagrams to addresses that nobody serves: below what lets pods dial others' faces (PeerRows).
const (
	priorityAsked    = PriorityPlatform - 3
	priorityUnserved = PriorityPlatform - 4
)

// Virtual are the addresses that mean something in a Network only while a load balancer leads from them.
type Virtual struct {
	// Ranges hold them, but for the Network's own service ranges.
	Ranges []netip.Prefix
	// Asked are those of them, and of the Network's own service ranges, at which the porthole answers questions for names.
	Asked []netip.Addr
	// Hosts are addresses of nodes in the Network's own service ranges, in order. They are the nodes' to everybody.
	Hosts []netip.Addr
}

// maxHosts bounds how many nodes' addresses are left out of a match. Each may divide the ranges into as many more as an address has bits.
const maxHosts = 64

// unserved gives the ACLs by which the switches of a Network's subnets refuse a pod's datagrams to an address, or a port, that no
// load balancer has led anywhere. Nothing else is at these addresses.
//
// It is for what comes later. A datagram that is let through is tracked as it is, untranslated, for as long as its sender goes
// on, and no load balancer translates what is tracked: who had sent before a Service was there would not reach it from that port.
// What is refused here is not tracked. (ovn-northd(8): Ingress Table from-lport ACL evaluation after LB, which comes before the
// one that commits.)
//
// By TCP and SCTP who begins too early is refused by the porthole, or gives up and begins again from another port. The matches
// are the same in all Networks with the same access, so that OVN has their logical flows once; but for the ranges that a Network
// has of its own.
func unserved(l Layout) nb.Facts {
	if len(l.Subnets) == 0 {
		return nb.Facts{}
	}
	var own, asked, hosts []netip.Prefix
	for _, r := range l.Ranges() {
		own = append(own, r.CIDR)
	}
	for _, a := range l.Virtual.Asked {
		asked = append(asked, netip.PrefixFrom(a, a.BitLen()))
	}
	for _, a := range l.Virtual.Hosts[:min(len(l.Virtual.Hosts), maxHosts)] {
		hosts = append(hosts, netip.PrefixFrom(a, a.BitLen()))
	}
	const nobodys = "udp && ct.new && !ct.dnat && "
	var facts nb.Facts
	for _, rule := range []struct {
		uuid, match, action string
		priority            int
	}{
		{nb.UUID(nb.TableACL, l.UID+"/unserved"), destinations(nobodys, l.Virtual.Ranges, own), actionReject, priorityUnserved},
		{unservedOwn(l.UID), destinations(nobodys, l.Services, hosts), actionReject, priorityUnserved},
		{nb.UUID(nb.TableACL, l.UID+"/asked"), destinations("udp.dst == 53 && ", asked, nil), verdictOf(model.Pass), priorityAsked},
	} {
		if rule.match == "" {
			continue
		}
		name, origin := nb.Unserved, nb.Origin{Policy: nb.Unserved, Direction: model.PolicyEgress.String(), Verdict: verdictIn(rule.action)}
		row := &nb.ACL{
			UUID: rule.uuid, Tier: TierPlatform, Priority: rule.priority, Direction: "from-lport",
			Match: rule.match + origin.Comment(), Action: rule.action, Name: &name, ExternalIDs: idsOf(l),
			Options: map[string]string{"apply-after-lb": "true"},
		}
		facts.Rows = append(facts.Rows, row)
		facts.Members = append(facts.Members, l.hangs(row.UUID)...)
	}
	return facts
}

// unservedOwn is the ACL about a Network's own service ranges. Networks that use it hang it on their switches, too.
func unservedOwn(uid string) string { return nb.UUID(nb.TableACL, uid+"/unserved/own") }

// destinations is a match of what goes to some ranges, without what others of them hold; empty when nothing does.
func destinations(of string, ranges, except []netip.Prefix) string {
	var out []string
	for _, v4 := range []bool{true, false} {
		var to []netip.Prefix
		for _, r := range model.Outermost(ranges) {
			to = append(to, blockPrefixes(model.Block{CIDR: r, Except: ofFamily(except, v4)}, v4)...)
		}
		if len(to) > 0 {
			out = append(out, familyOf(v4)+".dst == "+anyOf(textsOf(to)))
		}
	}
	switch len(out) {
	case 0:
		return ""
	case 1:
		return of + out[0]
	}
	return of + "(" + strings.Join(out, " || ") + ")"
}
