package engine

import (
	"slices"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// A namespace whose changes are divided fails closed: all that they close is closed before any of them opens something. ACLs of its
// NetworkPolicies that go or change are taken away. Its pods join the groups of the isolated ones, and leave groups that NetworkPolicies
// alone name, which only allow. While that takes several transactions, no more passes than the old policies allow. After it no more
// passes than the new ones allow, however many of them are there. What a policy allows that does not change goes on.

// takeParts takes work of namespaces that are divided into the batch, as much as there is room for, and of the rest what it closes. It
// returns the work that has to come again.
func (r *round) takeParts(b *batch, works []graph.Work) (later []graph.Work) {
	full := max(together*r.cfg.MaxBatch, b.size+r.cfg.MaxBatch)
	closers, closing := make([]plan.Unit, len(works)), 0
	for i, w := range works {
		closers[i] = r.closer(b, w)
		closing += closers[i].Size()
	}
	// Nothing opens before there is room for all that closes.
	opens := b.size+closing < full
	for i, w := range works {
		if opens && b.size+closing < full {
			closing -= closers[i].Size()
			r.consider(b, w)
			continue
		}
		if !closers[i].Empty() && (opens || b.size < full) {
			b.add(closers[i])
		}
		later = append(later, w)
	}
	return later
}

// closer is the part of work's unit that closes; the work stays pending.
func (r *round) closer(b *batch, w graph.Work) plan.Unit {
	out := plan.Unit{Owner: w.Owner, Work: w, Part: true}
	u := plan.Compare(r.retry.join(w), r.graph, b.there, plan.Coming{})
	switch {
	case w.Owner.Kind.OnlyAllows():
		r.withdraw(&out, u, b.there)
	case w.Owner.Kind == nb.KindPod:
		for _, m := range u.Leaves {
			if r.graph.AllowsOnly(m.Row) && b.there.HasMember(m) {
				out.Leaves = append(out.Leaves, m)
			}
		}
		for _, m := range u.Joins {
			holder, _ := r.graph.Owner(m.Row)
			if holder.Kind == nb.KindPortGroup && r.judgesItself(holder) && b.there.Has(m.Row) && b.there.Has(m.Ref()) {
				out.Joins = append(out.Joins, m)
			}
		}
	}
	return out
}

// withdraw takes the ACLs away that a unit deletes, changes, or hangs on another group.
func (r *round) withdraw(out *plan.Unit, u plan.Unit, there plan.Actual) {
	refs := slices.Clone(u.Deletes)
	for _, up := range u.Updates {
		refs = append(refs, nb.RefOf(up.Row))
	}
	for _, m := range u.Leaves {
		refs = append(refs, m.Ref())
	}
	goes := map[nb.Ref]bool{}
	for _, ref := range refs {
		if ref.Table == nb.TableACL && there.Has(ref) && !goes[ref] {
			goes[ref] = true
			out.Deletes = append(out.Deletes, ref)
		}
	}
	facts, _ := r.graph.Facts(u.Owner)
	for _, m := range slices.Concat(u.Leaves, facts.Members) {
		if goes[m.Ref()] && there.HasMember(m) {
			out.Leaves = append(out.Leaves, m)
		}
	}
}
