package controller

import (
	"github.com/atoll-net/atoll/pkg/graph"
	"github.com/atoll-net/atoll/pkg/nb"
	"github.com/atoll-net/atoll/pkg/plan"
)

// orphanOwner stands for rows of ours that no object wants any more.
const orphanOwner nb.Owner = "orphans"

// drift is what the database has become that we did not ask for.
type drift struct {
	// sets whose elements changed and have to be compared as a whole.
	sets map[nb.Set]struct{}
	// waiting owners need a row that holds a set to exist.
	waiting map[nb.Ref]map[nb.Owner]struct{}
}

func newDrift() *drift {
	return &drift{sets: map[nb.Set]struct{}{}, waiting: map[nb.Ref]map[nb.Owner]struct{}{}}
}

func (d *drift) suspicious() bool { return len(d.sets) > 0 }

func (d *drift) await(ref nb.Ref, owner nb.Owner) {
	if d.waiting[ref] == nil {
		d.waiting[ref] = map[nb.Owner]struct{}{}
	}
	d.waiting[ref][owner] = struct{}{}
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
		r.drift.sets[set] = struct{}{}
	}
	if r.swept && len(orphans) > 0 {
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
	for set := range r.drift.sets {
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
				r.graph.TouchMember(m)
			} else if row, ok := r.session.Row(m.Ref()); ok && plan.Ours(row) {
				orphans = append(orphans, m.Ref())
			}
		}
	}
	clear(r.drift.sets)
	if len(orphans) > 0 {
		r.remove(orphans)
	}
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
				r.drift.sets[nb.Set{In: nb.RefOf(row), Column: column}] = struct{}{}
			}
		}
	}
	if len(orphans) > 0 {
		r.log.Info("removing rows that no object wants", "rows", len(orphans))
		r.remove(orphans)
	}
}

// remove makes work of taking rows out, each with its places in sets.
func (r *round) remove(orphans []nb.Ref) {
	w := graph.Work{Owner: orphanOwner, Refs: map[nb.Ref]struct{}{}, Members: map[nb.Member]struct{}{}}
	for _, ref := range orphans {
		w.Refs[ref] = struct{}{}
	}
	for _, table := range nb.Tables() {
		for _, column := range nb.MemberColumns(table.Table) {
			for _, row := range r.session.Rows(table.Table) {
				set := nb.Set{In: nb.RefOf(row), Column: column}
				for _, uuid := range nb.Members(row, column) {
					m := nb.Member{Set: set, Value: uuid}
					if _, orphan := w.Refs[m.Ref()]; orphan {
						w.Members[m] = struct{}{}
					}
				}
			}
		}
	}
	r.graph.Return(w)
}
