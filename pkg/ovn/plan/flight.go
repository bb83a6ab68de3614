package plan

import (
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Flight is a transaction under way: whether it will be committed is not known yet, and what Actual says may show
// nothing of it, some or all. What it does not concern can be compared meanwhile, as if it had been committed; should it
// not be, that has to be compared anew.
type Flight struct {
	// owners whose units these are, and rows that they write, put into sets or take out of them.
	owners map[nb.Owner]struct{}
	rows   map[nb.Ref]struct{}
	// coming are rows that it inserts.
	coming map[nb.Ref]nb.Row
	// sweeping: a row with a set goes, and with it whatever rows no other set holds.
	sweeping bool
}

// NewFlight is the flight of a transaction of units.
func NewFlight(units []Unit) Flight {
	f := Flight{
		owners: make(map[nb.Owner]struct{}, len(units)), rows: make(map[nb.Ref]struct{}, len(units)),
		coming: make(map[nb.Ref]nb.Row, len(units)),
	}
	for _, u := range units {
		f.owners[u.Owner] = struct{}{}
		for _, row := range u.Inserts {
			ref := nb.RefOf(row)
			f.coming[ref], f.rows[ref] = row, struct{}{}
		}
		for _, up := range u.Updates {
			f.rows[nb.RefOf(up.Row)] = struct{}{}
		}
		for _, ref := range u.Deletes {
			f.rows[ref] = struct{}{}
			f.sweeping = f.sweeping || len(nb.MemberColumns(ref.Table)) > 0
		}
		for _, members := range [][]nb.Member{u.Joins, u.Leaves} {
			for _, m := range members {
				f.rows[m.Ref()] = struct{}{}
			}
		}
		for _, m := range u.Leaves {
			f.sweeping = f.sweeping || len(nb.MemberColumns(m.Target())) > 0
		}
	}
	return f
}

// Concerns reports whether the transaction decides about something that work names: that has to wait for it.
func (f Flight) Concerns(w graph.Work) bool {
	if _, busy := f.owners[w.Owner]; busy || f.sweeping {
		return true
	}
	for ref := range w.Refs {
		if _, busy := f.rows[ref]; busy {
			return true
		}
	}
	for m := range w.Members {
		if _, busy := f.rows[m.Ref()]; busy {
			return true
		}
	}
	return false
}

// After is what there is once the transaction has been committed, as far as that matters to work that it does not
// concern: rows that it inserts are there.
func (f Flight) After(now Actual) Actual { return after{now, f} }

type after struct {
	Actual
	f Flight
}

// Row implements Actual.
func (a after) Row(ref nb.Ref) (nb.Row, bool) {
	if row, coming := a.f.coming[ref]; coming {
		return row, true
	}
	return a.Actual.Row(ref)
}

// Has implements Actual.
func (a after) Has(ref nb.Ref) bool {
	_, there := a.Row(ref)
	return there
}
