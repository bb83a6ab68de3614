package trace

import (
	"cmp"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// asking is a port of which packets are judged at a stage.
type asking struct {
	port  string
	stage stage
}

// askedAt are the ACLs that are asked about a port's packets at a stage, in their order. Those that are about other ports alone
// are left out.
func (db *Database) askedAt(port *nb.LogicalSwitchPort, at stage) []*nb.ACL {
	key := asking{port.UUID, at}
	if known, has := db.asked[key]; has {
		return known
	}
	all := slices.DeleteFunc(db.aclsAt(port), func(a *nb.ACL) bool { return !at.has(a) || db.elsewhere(a, port, at) })
	slices.SortFunc(all, func(a, b *nb.ACL) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.UUID, b.UUID))
	})
	db.asked[key] = all
	return all
}

// elsewhere reports whether an ACL cannot be about a port: it asks first of all for the ports of a group, and this is none of them.
func (db *Database) elsewhere(a *nb.ACL, port *nb.LogicalSwitchPort, at stage) bool {
	rest, begins := strings.CutPrefix(a.Match, at.side())
	if !begins || strings.Contains(rest, "||") {
		return false
	}
	name, _, _ := strings.Cut(rest, " ")
	g := db.groupNames[name]
	return g != nil && !slices.Contains(g.Ports, port.UUID)
}

// portSuffix ends the names of the fields with a packet's destination port.
const portSuffix = ".dst"

// edges are where the numbers begin that a port is compared with, and those behind them.
func (v value) edges() (out []uint16) {
	const all = 1<<16 - 1
	if v.addresses.IsValid() || v.number > all {
		return nil
	}
	first := v.number & v.mask
	for _, edge := range []uint64{first, (first | ^v.mask&all) + 1} {
		if edge <= all {
			out = append(out, uint16(edge))
		}
	}
	return out
}

// Starts are ports of each protocol, sorted: what ACLs say of packets that a port sends, or receives, is the same for all ports from one of
// them to the next. A protocol of which they name no port has none. Masks are those of ranges: their ones come first.
func (db *Database) Starts(port *nb.LogicalSwitchPort, d model.Direction) (map[model.Protocol][]uint16, error) {
	stages := []stage{stageReceived}
	if d == model.PolicyEgress {
		stages = []stage{stageDialled, stageBalanced}
	}
	out := map[model.Protocol][]uint16{}
	for _, at := range stages {
		for _, a := range db.askedAt(port, at) {
			m, err := db.parse(a.Match)
			if err != nil {
				return nil, err
			}
			for protocol, edges := range m.starts {
				out[protocol] = append(out[protocol], edges...)
			}
		}
	}
	for protocol, edges := range out {
		slices.Sort(edges)
		out[protocol] = slices.Compact(edges)
	}
	return out, nil
}
