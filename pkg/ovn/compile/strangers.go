package compile

import (
	"net/netip"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Priorities of what keeps strangers out: below all that says whose pods come in (PeerRows).
const (
	priorityTaken     = PriorityPlatform - 1
	priorityStrangers = PriorityPlatform - 2
)

// strangers gives the ACLs by which the switches of a Network's subnets drop what comes from faces. They are there from the
// Network's beginning: nodes let pods of one Network through to another as soon as the API says so, each when it hears of it, and
// the rows that say whose pods come in (PeerRows) are written later, or, without a controller, not at all.
//
// They are two rows, however many subnets, pods and peers there are, and the same in all Networks, so that OVN has their logical
// flows once. Only a Network whose own addresses lie among faces has another match: those are its pods'.
//
// Nothing else comes from faces but what OVN turns back to the pod that sent it, and the node's refusal of what a pod has sent to
// a face: that has the face as its source, and ends a connection or nothing. (RFC 9293, section 3.10.7: a reset is never answered
// and makes no connection.)
func strangers(l Layout, faces []netip.Prefix) nb.Facts {
	var from []string
	for _, v4 := range []bool{true, false} {
		if prefixes := strange(l, faces, v4); len(prefixes) > 0 {
			from = append(from, familyOf(v4)+".src == "+anyOf(textsOf(prefixes)))
		}
	}
	if !l.Faces || len(l.Subnets) == 0 || len(from) == 0 {
		return nb.Facts{}
	}
	anyFace := strings.Join(from, " || ")
	if len(from) > 1 {
		anyFace = "(" + anyFace + ")"
	}
	var facts nb.Facts
	for _, rule := range []struct {
		key, match string
		verdict    model.Verdict
		priority   int
	}{
		{"reset", anyFace + " && tcp.flags == 0x4/0x7", model.Pass, priorityTaken},
		{"strangers", anyFace + " && !flags.loopback", model.Deny, priorityStrangers},
	} {
		// As with the guard, the origin names no Network, so that the match is the same in all.
		name, origin := nb.Peers, nb.Origin{Policy: nb.Peers, Direction: model.PolicyIngress.String(), Verdict: verdictOf(rule.verdict)}
		row := &nb.ACL{
			UUID: nb.UUID(nb.TableACL, l.UID+"/"+rule.key), Tier: TierPlatform, Priority: rule.priority, Direction: "to-lport",
			Match: rule.match + origin.Comment(), Action: verdictOf(rule.verdict), Name: &name, ExternalIDs: idsOf(l),
		}
		facts.Rows = append(facts.Rows, row)
		for _, s := range l.Subnets {
			facts.Members = append(facts.Members, switchRef(l, s.Name).Holds(nb.ColumnACLs, row.UUID))
		}
	}
	return facts
}

// strange are the faces of one IP family that are no addresses of the Network's own.
func strange(l Layout, faces []netip.Prefix, v4 bool) []netip.Prefix {
	var own, out []netip.Prefix
	for _, r := range l.Ranges() {
		own = append(own, r.CIDR)
	}
	for _, f := range faces {
		out = append(out, blockPrefixes(model.Block{CIDR: f, Except: ofFamily(own, v4)}, v4)...)
	}
	return out
}

func ofFamily(prefixes []netip.Prefix, v4 bool) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range prefixes {
		if p.Addr().Is4() == v4 {
			out = append(out, p)
		}
	}
	return out
}
