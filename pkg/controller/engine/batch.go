package engine

import (
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// gather compares pending work until there is a batch to write. Owners that differ in nothing are done.
func (r *round) gather() []plan.Unit {
	if len(r.drift.evicted) > 0 {
		units := r.drift.evicted
		r.drift.evicted = nil
		return units
	}
	for len(r.groups) > 0 || r.graph.Pending() > 0 {
		b := &batch{there: r.session, coming: plan.Coming{}}
		if r.whole = len(r.groups) == 0; !r.whole {
			group := r.groups[0]
			r.groups = r.groups[1:]
			for _, w := range group {
				r.consider(b, w)
			}
		} else {
			r.fill(b)
		}
		r.doneWith(b)
		if len(b.units) > 0 {
			r.letGo(b.units)
			return b.units
		}
	}
	return nil
}

// fill takes pending work into a batch. It does not divide what decides what passes, so that no packet passes between two halves: where
// that is too much for a transaction, chooseTurns decides whose is in this one. Every other batch takes only ports and routes that need
// not wait for that. So these have their turn however much a tenant changes, and they do not share a transaction with thousands of rows.
func (r *round) fill(b *batch) {
	judged := r.graph.Judging() > 0
	if r.contents = !r.contents; r.contents {
		r.fillContents(b)
		if len(b.units) > 0 {
			return
		}
		r.contents = false
	}
	r.turns = r.chooseTurns(b)
	var later, parts []graph.Work
	for {
		w, ok := r.graph.Next()
		if !ok {
			break
		}
		if r.setApart(w) {
			continue
		}
		judges := judged && b.judged(w)
		switch {
		case judges && r.dividedHere(w):
			parts = append(parts, w)
		case r.leftOut(b, w):
			later = append(later, w)
		case judges || b.size < r.cfg.MaxBatch:
			r.consider(b, w)
		default:
			later = append(later, w)
		}
		if !judged && len(later) > 0 {
			break
		}
	}
	if len(parts) > 0 {
		later = append(later, r.takeParts(b, parts)...)
	}
	r.graph.PutOff(later)
}

// fillContents takes work that brings no containers and may come first.
func (r *round) fillContents(b *batch) {
	r.graph.TakeContents(func(w graph.Work) bool {
		if b.size >= r.cfg.MaxBatch || r.retry.refused(w.Owner) || !r.comesFirst(b, w) {
			return false
		}
		r.consider(b, w)
		return true
	})
}

// comesFirst reports whether work may be written before other pending work. It may not while access lists or groups of its Network are
// pending: a route shall lead nowhere before they are there. A port that changes its places waits for those of each Network where it
// wants places, or had them. A new port waits for those of its own namespace, and of none, and until the database has all rows in which
// it wants places, but for groups of peers of other namespaces' policies, which bring it when they come: however much one tenant
// changes, another's new pods in the same Network do not wait for it.
func (r *round) comesFirst(b *batch, w graph.Work) bool {
	fresh := b.fresh(w)
	switch {
	case w.Judges():
		return false
	case !fresh && !w.Grouped():
		network := r.networkOf(w)
		return network != "" && !r.graph.JudgingFor(nb.NetworkOwner(network))
	}
	waits := func(m nb.Member) bool {
		owner, wanted := r.graph.Owner(m.Row)
		switch {
		case !wanted:
			return true
		case !fresh:
			return r.graph.JudgingFor(owner)
		}
		return r.graph.JudgingAbout(owner, w.Owner.Namespace) || !b.there.Has(m.Row) && !r.graph.ForOthers(w.Owner, m.Row)
	}
	for m := range w.Members {
		if waits(m) {
			return false
		}
	}
	facts, _ := r.graph.Facts(w.Owner)
	return !slices.ContainsFunc(facts.Members, waits)
}

// setApart gives an owner whose rows the database has refused a transaction of its own. If that fails again, it does not divide others'.
func (r *round) setApart(w graph.Work) bool {
	if !r.retry.refused(w.Owner) {
		return false
	}
	if due := r.retry.renewed(w.Owner); due.After(time.Now()) {
		r.retry.wait(w, due)
	} else {
		r.groups = append(r.groups, []graph.Work{w})
	}
	return true
}

// batch is what one transaction is made of.
type batch struct {
	// there is what the database holds, or will once the transaction under way is committed.
	there  plan.Actual
	coming plan.Coming
	units  []plan.Unit
	// size is the number of rows and elements that the units change.
	size int
	// same is work that found nothing to write.
	same []graph.Work
}

func (b *batch) add(u plan.Unit) {
	b.units = append(b.units, u)
	b.size += u.Size()
}

// fresh reports whether the work is to make a port. It comes with the places that policies want for it now, so that it may come after
// them.
func (b *batch) fresh(w graph.Work) bool {
	for ref := range w.Refs {
		if ref.Table == nb.TableLogicalSwitchPort && !b.there.Has(ref) {
			return true
		}
	}
	return false
}

// consider compares one owner's work: what differs becomes a unit.
func (r *round) consider(b *batch, w graph.Work) {
	w = r.retry.join(w)
	u := plan.Compare(w, r.graph, b.there, b.coming)
	if due, early := r.graves.until(u, time.Now()); early {
		r.retry.wait(u.Work, due)
		for _, row := range u.Inserts {
			delete(b.coming, nb.RefOf(row))
		}
		for _, ref := range u.Deletes {
			delete(b.coming, ref)
		}
		return
	}
	for _, ref := range u.Blocked {
		r.drift.await(ref, w.Owner, r.lives)
	}
	switch {
	case !u.Empty():
		b.add(u)
	case len(u.Blocked) == 0:
		b.same = append(b.same, w)
	}
}

// letGo has groups of load balancers and ACLs of Networks that go leave the switches of others, which do not want them any more
// either. The database refuses to take a row away that another one refers to; and two that refer to each other's, in two
// transactions, would wait for one another.
func (r *round) letGo(units []plan.Unit) {
	going := map[nb.Ref]int{}
	for i, u := range units {
		for _, ref := range u.Deletes {
			if ref.Table == nb.TableLoadBalancerGroup || ref.Table == nb.TableACL && u.Owner.Kind == nb.KindNetwork {
				going[ref] = i
			}
		}
	}
	if len(going) == 0 {
		return
	}
	for _, row := range r.session.Rows(nb.TableLogicalSwitch) {
		for _, column := range []string{nb.ColumnLoadBalancerGroups, nb.ColumnACLs} {
			set := nb.Set{Row: nb.RefOf(row), Column: column}
			for _, held := range nb.Members(row, column) {
				m := nb.Member{Set: set, Value: held}
				if i, goes := going[m.Ref()]; goes && !r.graph.Wants(m) && !slices.Contains(units[i].Leaves, m) {
					units[i].Leaves = append(units[i].Leaves, m)
				}
			}
		}
	}
}

// doneWith is done with what the batch found nothing to write for. That makes work, which must not come into the same batch: what
// is in it has been compared with the graph as it was, and an owner has one unit in it.
func (r *round) doneWith(b *batch) {
	for _, w := range b.same {
		r.done(w)
	}
}

// divide finds the owner whose rows the database does not accept: a refused transaction is halved until that owner is alone.
// Before that, what decides what passes is tried once more as a whole, after the rest has been written: more often than not it is
// a row of the rest.
func (r *round) divide(units []plan.Unit, refused *ovsdb.RefusedError) {
	if len(units) == 1 {
		owner := units[0].Owner
		before := r.retry.refused(owner)
		again := r.retry.add(units[0].Work, time.Now())
		if !before {
			// Somebody may have taken a row away, to which these refer, before we heard of it.
			r.log.Info("the database refuses an owner's rows", "owner", owner, "error", refused.Message, "retry in", again)
			return
		}
		r.log.Error("the database refuses an owner's rows again", "owner", owner, "error", refused.Message, "retry in", again)
		r.state.Refused(owner, refused.Message)
		return
	}
	var together, rest []graph.Work
	for _, u := range units {
		if u.Work.Judges() || u.Work.Grouped() && len(u.Inserts) == 0 {
			together = append(together, u.Work)
		} else {
			rest = append(rest, u.Work)
		}
	}
	if !r.parted && len(together) > 0 && len(rest) > 0 {
		r.parted = true
		// It is gathered again with what has come meanwhile.
		for _, w := range together {
			r.graph.Return(w)
		}
		r.groups = append(r.groups, rest)
		return
	}
	works := slices.Concat(together, rest)
	r.groups = append([][]graph.Work{works[:len(works)/2], works[len(works)/2:]}, r.groups...)
}
