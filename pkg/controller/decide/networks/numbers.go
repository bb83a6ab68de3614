package networks

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// numbers holds the tunnel keys that the switches and routers of Networks request (nb.TunnelKey). A tenant's admin chooses the names
// of subnets, and so can choose a number, even that of another Network's switch. If two rows request the same number, ovn-northd
// gives it to either and may change the other's. Until all nodes know that, packets of one Network reach pods of the other.
//
// So only the holder of a number requests it. The holder is the Network whose status has listed the subnet for the longest time: a
// Network whose owner adds or renames a subnet comes last.
type numbers struct {
	// asked are the rows of each Network, and askers the Networks that ask for a number.
	asked  map[string][]numbered
	askers pass.Index[string, string]
}

// numbered is a row that would ask for a number, and since when it is there, in seconds.
type numbered struct {
	compile.Numbered
	since int64
}

// notNoted is later than all times: the status does not tell of the subnet yet.
const notNoted = math.MaxInt64

// numbered are the rows of a Network that would ask for numbers. What is made of its UID alone is as old as the Network.
func (n *Network) numbered() (out []numbered) {
	if n.Model == nil {
		return nil
	}
	for _, row := range compile.Numbers(n.Layout) {
		since := n.Model.Created.Unix()
		if row.Subnet != "" {
			since = subnetSince(n.Model, row.Subnet)
		}
		out = append(out, numbered{row, since})
	}
	return out
}

func subnetSince(m *model.Network, subnet string) int64 {
	if at, noted := m.SubnetSince[subnet]; noted {
		return at.Unix()
	}
	return notNoted
}

// number stores the numbers that a Network's rows would request now, and queues the Networks that request the same or a former one.
func (s *Stage) number(n *Network) {
	now, former := n.numbered(), s.numbers.asked[n.Name]
	if slices.Equal(former, now) {
		return
	}
	for _, row := range former {
		s.numbers.askers.Drop(row.Number, n.Name)
	}
	for _, row := range slices.Concat(former, now) {
		for other := range s.numbers.askers[row.Number] {
			if o := s.networks[other]; o != n && o != nil {
				o.routed = false
				s.unrouted.Mark(other)
			}
		}
	}
	for _, row := range now {
		s.numbers.askers.Add(row.Number, n.Name)
	}
	if s.numbers.asked[n.Name] = now; len(now) == 0 {
		delete(s.numbers.asked, n.Name)
	}
}

// unnumbered are the rows of a Network that ask for no number: a row of another Network comes before, or another one of its own.
func (s *Stage) unnumbered(n *Network) (out []string) {
	var seen []string
	for _, row := range s.numbers.asked[n.Name] {
		taken := slices.Contains(seen, row.Number)
		for other := range s.numbers.askers[row.Number] {
			taken = taken || s.before(s.networks[other], n, row)
		}
		if seen = append(seen, row.Number); taken {
			out = append(out, row.UUID)
		}
	}
	return out
}

// before reports whether a Network keeps a number that a row of another one asks for, too. The default Network comes first, then
// the Network that has had its row for longer, then the older Network.
func (s *Stage) before(o, n *Network, row numbered) bool {
	switch {
	case o == nil || o == n || o.Model == nil:
		return false
	case o.Default != n.Default:
		return o.Default
	}
	at := slices.IndexFunc(s.numbers.asked[o.Name], func(other numbered) bool { return other.Number == row.Number })
	if at < 0 {
		return false
	}
	since := s.numbers.asked[o.Name][at].since
	return cmp.Or(cmp.Compare(since, row.since), o.Model.Created.Compare(n.Model.Created), strings.Compare(o.Name, n.Name)) < 0
}
