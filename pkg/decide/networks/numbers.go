package networks

import (
	"slices"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/decide/pass"
)

// numbers are those that Networks' switches and routers ask for (nb.TunnelKey). A tenant's admin names his subnets, and so can choose a number: also that of another Network's switch. Of
// two that ask for one, ovn-northd gives it to whom it likes and may change the other's, and until all nodes know that, packets of one come to pods of the other.
type numbers struct {
	// asked are the numbers of each Network's rows, and askers the Networks that ask for a number.
	asked  map[string][]compile.Numbered
	askers pass.Index[string, string]
}

// number enters what a Network's rows would ask for now, and has the rows of others looked at that ask for the same, or did.
func (s *Stage) number(n *Network) {
	var now []compile.Numbered
	if n.Model != nil {
		now = compile.Numbers(n.Layout)
	}
	former := s.numbers.asked[n.Name]
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

// unnumbered are the rows of a Network that ask for no number: a Network before it asks for theirs, or another row of its own.
func (s *Stage) unnumbered(n *Network) (out []string) {
	var seen []string
	for _, row := range s.numbers.asked[n.Name] {
		taken := slices.Contains(seen, row.Number)
		for other := range s.numbers.askers[row.Number] {
			taken = taken || s.before(s.networks[other], n)
		}
		if seen = append(seen, row.Number); taken {
			out = append(out, row.UUID)
		}
	}
	return out
}

// before reports whether a Network has its numbers before another one: the default Network before all, then the older.
func (s *Stage) before(o, n *Network) bool {
	switch {
	case o == nil || o == n || o.Model == nil:
		return false
	case o.Default != n.Default:
		return o.Default
	}
	return o.Model.Created.Before(n.Model.Created) || o.Model.Created.Equal(n.Model.Created) && o.Name < n.Name
}
