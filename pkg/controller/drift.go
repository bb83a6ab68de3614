package controller

import (
	"maps"
	"time"

	"github.com/atoll-net/atoll/pkg/graph"
	"github.com/atoll-net/atoll/pkg/nb"
	"github.com/atoll-net/atoll/pkg/plan"
)

// orphanOwner stands for a row of ours that no object wants any more. Each has an owner of its own, so that one
// which the database does not let go keeps no other.
func orphanOwner(ref nb.Ref) nb.Owner {
	return nb.Owner("orphan/" + string(ref.Table) + "/" + ref.UUID)
}

// drift is what the database has become that we did not ask for.
type drift struct {
	// sets whose elements changed and have to be compared as a whole, and when.
	sets map[nb.Set]struct{}
	at   time.Time
	// evicted rows are to leave their sets before anything else is written.
	evicted []plan.Unit
	// waiting owners need a row that holds a set to exist.
	waiting map[nb.Ref]map[nb.Owner]struct{}
}

func newDrift() *drift {
	return &drift{sets: map[nb.Set]struct{}{}, waiting: map[nb.Ref]map[nb.Owner]struct{}{}}
}

// suspect has a set compared as a whole before long.
func (d *drift) suspect(s nb.Set) {
	if len(d.sets) == 0 {
		d.at = time.Now().Add(verifyAfter)
	}
	d.sets[s] = struct{}{}
}

// due is the time until sets are to be compared; false when none is suspected.
func (d *drift) due(now time.Time) (time.Duration, bool) {
	return max(d.at.Sub(now), 0), len(d.sets) > 0
}

// await has an owner looked at again when a row is there. Owners that have gone meanwhile are left out whenever
// the set has doubled, as lives tells.
func (d *drift) await(ref nb.Ref, owner nb.Owner, lives func(nb.Owner) bool) {
	set := d.waiting[ref]
	if set == nil {
		set = map[nb.Owner]struct{}{}
		d.waiting[ref] = set
	}
	set[owner] = struct{}{}
	if n := len(set); n >= 1024 && n&(n-1) == 0 {
		maps.DeleteFunc(set, func(o nb.Owner, _ struct{}) bool { return !lives(o) })
	}
}

// observe takes in which rows changed, by us or by others: each is compared again, which costs nothing when
// it is as it should be.
func (r *round) observe() {
	changes := r.session.Take()
	var orphans []nb.Ref
	for ref := range changes.Rows {
		r.wake(ref)
		if r.graph.Touch(ref) {
			continue
		}
		if row, ok := r.session.Row(ref); ok && plan.Ours(row) {
			orphans = append(orphans, ref)
		}
	}
	for set := range changes.Sets {
		r.drift.suspect(set)
	}
	if r.begun && len(orphans) > 0 {
		r.remove(orphans)
	}
}

// wake makes work of the owners that waited for a row, once it is there.
func (r *round) wake(ref nb.Ref) {
	if len(r.drift.waiting[ref]) == 0 || !r.session.Has(ref) {
		return
	}
	for owner := range r.drift.waiting[ref] {
		r.graph.TouchOwner(owner)
	}
	delete(r.drift.waiting, ref)
}

// verify compares the sets that changed, element by element, with what they should hold.
func (r *round) verify() {
	view := r.session.View()
	var orphans []nb.Ref
	suspected := r.drift.sets
	r.drift.sets, r.drift.evicted = map[nb.Set]struct{}{}, nil
	for set := range suspected {
		if _, wanted := r.graph.Row(set.In); !wanted {
			continue
		}
		have := view.Elements(set)
		for _, uuid := range r.graph.Elements(set) {
			// A row that is missing as a whole is known already: its going was an event of its own.
			m := nb.Member{Set: set, Value: uuid}
			if _, ok := have[uuid]; !ok && r.session.Has(m.Ref()) {
				r.graph.TouchMember(m)
			}
		}
		for uuid := range have {
			m := nb.Member{Set: set, Value: uuid}
			if r.graph.Wants(m) {
				continue
			}
			if _, wanted := r.graph.Row(m.Ref()); wanted {
				r.evict(m)
			} else if row, ok := r.session.Row(m.Ref()); ok && plan.Ours(row) {
				orphans = append(orphans, m.Ref())
			}
		}
	}
	if len(orphans) > 0 {
		r.remove(orphans)
	}
}

// evict takes a row of ours that is in a wrong set out of every set, so that the server collects it; its going
// then has it written anew, in its place. ovn-northd does not reliably recover a port that was in two switches
// when it is only taken out of one of them: the port stayed unreachable.
func (r *round) evict(stray nb.Member) {
	u := plan.Unit{Owner: nb.Owner("evicted/" + stray.Value), Leaves: []nb.Member{stray}}
	owner, _ := r.graph.Owner(stray.Ref())
	facts, _ := r.graph.Facts(owner)
	for _, m := range facts.Members {
		if m.Value == stray.Value {
			u.Leaves = append(u.Leaves, m)
		}
	}
	u.Work = graph.Work{Owner: u.Owner}
	r.drift.evicted = append(r.drift.evicted, u)
	// Looked at again until it is in its place, whatever becomes of this.
	r.drift.suspect(stray.Set)
	r.log.Warn("a port is in a switch that is not its own; it is made anew", "owner", owner, "in", stray.In.UUID)
}

// sweep finds what a controller before us left, or somebody did while there was none: rows of ours that nobody
// wants, and elements of our sets that do not belong there. It is called when every object has been applied.
func (r *round) sweep() {
	var orphans []nb.Ref
	for _, table := range nb.Tables() {
		for _, row := range r.session.Rows(table.Table) {
			if _, wanted := r.graph.Row(nb.RefOf(row)); !wanted && plan.Ours(row) {
				orphans = append(orphans, nb.RefOf(row))
			}
			for _, column := range nb.MemberColumns(table.Table) {
				r.drift.suspect(nb.Set{In: nb.RefOf(row), Column: column})
			}
		}
	}
	if len(orphans) > 0 {
		r.log.Info("removing rows that no object wants", "rows", len(orphans))
		r.remove(orphans)
	}
}

// suspectAll has everything compared again, rows and sets.
func (r *round) suspectAll() {
	r.graph.TouchAll()
	r.sweep()
}

// remove makes work of taking rows out, each with its places in sets.
func (r *round) remove(orphans []nb.Ref) {
	works := map[nb.Ref]graph.Work{}
	for _, ref := range orphans {
		works[ref] = graph.Work{Owner: orphanOwner(ref), Refs: map[nb.Ref]struct{}{ref: {}}, Members: map[nb.Member]struct{}{}}
	}
	for _, table := range nb.Tables() {
		for _, column := range nb.MemberColumns(table.Table) {
			for _, row := range r.session.Rows(table.Table) {
				set := nb.Set{In: nb.RefOf(row), Column: column}
				for _, uuid := range nb.Members(row, column) {
					m := nb.Member{Set: set, Value: uuid}
					if w, orphan := works[m.Ref()]; orphan {
						w.Members[m] = struct{}{}
					}
				}
			}
		}
	}
	for _, w := range works {
		r.graph.Return(w)
	}
}
