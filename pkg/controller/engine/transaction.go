package engine

import (
	"time"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// transaction is what is written at once.
type transaction struct {
	plan.Flight
	units      []plan.Unit
	guard, ops []plan.Operation
	// err is why there are no operations.
	err     error
	started time.Time
	// looked: nothing that waits can follow it before it is answered.
	looked bool
	// whole: it is no part of one that was refused.
	whole bool
}

// prepare makes a transaction of units; nil when there are none.
func (r *round) prepare(units []plan.Unit) *transaction {
	if len(units) == 0 {
		return nil
	}
	tx := &transaction{Flight: plan.NewFlight(units), units: units, whole: r.whole}
	tx.guard, tx.ops, tx.err = r.encode(units)
	return tx
}

// encode writes units as operations, and the guard of our epoch.
func (r *round) encode(units []plan.Unit) (guard, ops []plan.Operation, err error) {
	global, ok := r.session.Global()
	if !ok {
		return nil, nil, ovsdb.ErrGuard
	}
	epoch, err := r.encoder.EpochGuard(r.cfg.Epoch, global.UUID)
	if err != nil {
		return nil, nil, err
	}
	if ops, err = r.encoder.Operations(units); err != nil {
		// Our own rows do not fit the server's schema: that is as good as the server's refusal.
		return nil, nil, &ovsdb.RefusedError{Message: err.Error()}
	}
	return []plan.Operation{epoch}, ops, nil
}

// gatherAhead gathers what may follow the transaction under way as if that one were committed. What it concerns is
// left for later; and so is what decides what passes, while policies wait: that is taken as a whole.
func (r *round) gatherAhead() []plan.Unit {
	b := &batch{there: r.inflight.After(r.session), coming: plan.Coming{}}
	var later []graph.Work
	judged := r.graph.Judging() > 0
	for b.size < r.cfg.MaxBatch {
		w, ok := r.graph.Next()
		if !ok {
			break
		}
		if judged && w.Grouped() || r.retry.refused(w.Owner) || r.inflight.Concerns(r.retry.join(w)) {
			later = append(later, w)
			continue
		}
		r.consider(b, w)
	}
	r.graph.PutOff(later)
	r.doneWith(b)
	r.letGo(b.units)
	return b.units
}

// plain reports whether nothing has to be tried before what the graph holds as work.
func (r *round) plain() bool { return len(r.groups) == 0 && len(r.drift.evicted) == 0 }

// giveBack makes work of a transaction's units again.
func (r *round) giveBack(tx *transaction) {
	for _, u := range tx.units {
		r.graph.Return(u.Work)
	}
}
