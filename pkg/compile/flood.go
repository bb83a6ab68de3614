package compile

import (
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// floodRate is what the pods of a Network on one node together may send to many at once, in kbit/s: 8,000 of the smallest frames
// a second, or 330 of the largest. Each frame becomes as many as there are ports, on each node with the Network.
//
// Questions for neighbours have as much again for themselves: what else is sent to many does not keep pods from finding each other.
const floodRate = 4000

// floods gives the rows that bound it. They are the same for all of a Network's switches, and differ from any other Network's by
// the comment: of rows with the same match ovn-northd makes one logical flow, and a node has one meter for a flow.
func floods(l Layout) nb.Facts {
	var facts nb.Facts
	if len(l.Subnets) == 0 {
		// Nothing would hold the rows.
		return facts
	}
	for _, kind := range []struct {
		name, match string
		priority    int
	}{{"neighbours", "eth.mcast && (arp || nd)", PriorityPlatform + 1}, {"others", "eth.mcast", PriorityPlatform}} {
		origin := nb.Origin{Network: l.Name, Policy: nb.Flood, Direction: model.PolicyEgress.String(), Verdict: verdictOf(model.Deny)}
		row := &nb.QoS{
			UUID: nb.UUID(nb.TableQoS, l.UID+"/flood/"+kind.name), Priority: kind.priority, Direction: "from-lport",
			Match: kind.match + origin.Comment(), Bandwidth: map[string]int{"rate": floodRate, "burst": floodRate}, ExternalIDs: idsOf(l),
		}
		facts.Rows = append(facts.Rows, row)
		for _, s := range l.Subnets {
			facts.Members = append(facts.Members, nb.Member{
				Set:   nb.Set{In: nb.Ref{Table: nb.TableLogicalSwitch, UUID: switchUUID(l, s.Name)}, Column: nb.ColumnQoSRules},
				Value: row.UUID,
			})
		}
	}
	return facts
}
