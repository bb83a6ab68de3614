package engine

import (
	"maps"
	"time"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// drift is what the database has become that we did not ask for.
type drift struct {
	// members that came or went otherwise than we want, and when they are to be compared.
	members  map[nb.Member]struct{}
	deadline time.Time
	// evicted rows are to leave their sets before anything else is written.
	evicted []plan.Unit
	// waiting owners need a row that holds a set to exist.
	waiting map[nb.Ref]map[nb.Owner]struct{}
}

func newDrift() *drift {
	return &drift{members: map[nb.Member]struct{}{}, waiting: map[nb.Ref]map[nb.Owner]struct{}{}}
}

// suspect has a member compared before long.
func (d *drift) suspect(m nb.Member) {
	if len(d.members) == 0 {
		d.deadline = time.Now().Add(verifyAfter)
	}
	d.members[m] = struct{}{}
}

// due is the time until members are to be compared; false when none is suspected.
func (d *drift) due(now time.Time) (time.Duration, bool) {
	return max(d.deadline.Sub(now), 0), len(d.members) > 0
}

// await registers an owner that is to be compared again when a row exists. Whenever the set has doubled, it drops owners for which
// lives is false.
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

// observe takes in which rows changed, by us or by others. What is as it should be, as after our own transactions, is
// done with here; the rest is compared again.
func (r *round) observe() {
	changes := r.session.Take()
	var orphans []nb.Ref
	for ref := range changes.Rows {
		if ref.Table == nb.TableGlobal {
			r.global = true
			continue
		}
		r.wake(ref)
		if r.asWanted(ref) || r.graph.Touch(ref) {
			continue
		}
		if row, there := r.session.Row(ref); there && plan.Ours(row) {
			orphans = append(orphans, ref)
		}
	}
	for m := range changes.Members {
		if r.graph.Wants(m) != r.session.HasMember(m) {
			r.drift.suspect(m)
		}
	}
	if r.begun && len(orphans) > 0 {
		r.remove(orphans)
	}
}

// asWanted reports whether a row is there as it is wanted.
func (r *round) asWanted(ref nb.Ref) bool {
	want, wanted := r.graph.Row(ref)
	row, there := r.session.Row(ref)
	return wanted && there && !plan.Differs(want, row)
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

// verify compares the members that came or went with what should be.
func (r *round) verify() {
	var orphans []nb.Ref
	suspected := r.drift.members
	r.drift.members, r.drift.evicted = map[nb.Member]struct{}{}, nil
	for m := range suspected {
		if _, wanted := r.graph.Row(m.Row); !wanted {
			continue
		}
		wanted, there := r.graph.Wants(m), r.session.HasMember(m)
		row, exists := r.session.Row(m.Ref())
		switch {
		case wanted == there:
		case m.IsValue():
			r.graph.TouchMember(m)
		case wanted:
			// A row that is missing as a whole is known already: its going was an event of its own.
			if exists {
				r.graph.TouchMember(m)
			}
		case !r.wantedRow(m.Ref()):
			if exists && plan.Ours(row) {
				orphans = append(orphans, m.Ref())
			}
		default:
			r.stray(m)
		}
	}
	if len(orphans) > 0 {
		r.remove(orphans)
	}
}

// wantedRow reports whether anybody wants a row.
func (r *round) wantedRow(ref nb.Ref) bool {
	_, wanted := r.graph.Row(ref)
	return wanted
}

// stray is told of an element of ours that is in a set where it does not belong. It leaves that set. A port in a switch or
// router that is not its own has to be made anew.
func (r *round) stray(m nb.Member) {
	owner, _ := r.graph.Owner(m.Ref())
	switch {
	case r.graph.Busy(owner):
		// What is to be written may well take it out.
		r.drift.suspect(m)
	case m.Column == nb.ColumnPorts && !nb.IsWeak(nb.Column{Table: m.Row.Table, Name: m.Column}):
		r.evict(m)
	default:
		r.log.Warn("a row is in a set where it does not belong; it is taken out", "owner", owner, "row", m.Value, "in", m.Row.UUID)
		r.graph.TouchMember(m)
	}
}

// evict takes a port of ours that is in a wrong switch or router out of every set, so that the server collects it; its going
// then has it written anew, in its place. ovn-northd does not reliably recover a port that was in two switches
// when it is only taken out of one of them: the port stayed unreachable.
func (r *round) evict(stray nb.Member) {
	u := plan.Unit{Owner: nb.EvictedOwner(stray.Value), Leaves: []nb.Member{stray}}
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
	r.drift.suspect(stray)
	r.log.Warn("a port is in a switch that is not its own; it is made anew", "owner", owner, "in", stray.Row.UUID)
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
				set := nb.Set{Row: nb.RefOf(row), Column: column}
				for _, uuid := range nb.Members(row, column) {
					if m := (nb.Member{Set: set, Value: uuid}); !r.graph.Wants(m) {
						r.drift.suspect(m)
					}
				}
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
	works, refs := map[nb.Ref]graph.Work{}, map[nb.Ref]struct{}{}
	for _, ref := range orphans {
		works[ref] = graph.Work{Owner: nb.OrphanOwner(ref), Refs: map[nb.Ref]struct{}{ref: {}}, Members: map[nb.Member]struct{}{}}
		refs[ref] = struct{}{}
	}
	for _, m := range r.session.Holders(refs) {
		works[m.Ref()].Members[m] = struct{}{}
	}
	for _, w := range works {
		r.graph.Return(w)
	}
}
