package engine

import (
	"cmp"
	"slices"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// turn names changes that are written together: those of a Network; where these are more than a transaction takes, of a tenant in it; and
// where its changes alone are more, of one of its namespaces. The zero turn is of no Network, or of several.
type turn struct{ network, share, namespace string }

// everyones is the share of what is of no namespace: the Network's own rows, nodes' and those of the cluster's policies.
const everyones = "cluster"

// levels are the turns that t is part of, the largest first, and t itself.
func (t turn) levels() []turn {
	all := []turn{{network: t.network}, {network: t.network, share: t.share}, t}
	switch {
	case t.network == "":
		return all[:1]
	case t.namespace == "":
		return all[:2]
	}
	return all
}

// turns say what is in a batch of what decides what passes.
type turns struct {
	// left says of which turns, each the smallest, nothing is in the batch, and how often in a row. networks are those of these turns.
	left     map[turn]int
	networks map[string]bool
	// divided are the smallest turns that alone are more than one transaction takes.
	divided map[turn]bool
}

// leave leaves turns out.
func (c turns) leave(w *waiting, smallest ...turn) {
	for _, t := range smallest {
		c.left[t], c.networks[t.network] = w.left[t]+1, true
	}
}

// waiting is the size of what decides what passes and waits, by turns.
type waiting struct {
	// whole is what a transaction takes.
	whole int
	// smallest are the smallest turns, in the order in which they came.
	smallest []turn
	sizes    map[turn]int
	// left says how often in a row a part of a turn was left out.
	left map[turn]int
}

func (w *waiting) add(t turn, size, left int) {
	if _, known := w.sizes[t]; !known {
		w.smallest = append(w.smallest, t)
	}
	for _, level := range t.levels() {
		w.sizes[level] += size
		w.left[level] = max(w.left[level], left)
	}
}

// chooseTurns decides what is in the batch where more decides what passes than one transaction takes. Half of what a namespace's policies
// change could be open where neither the old ones nor the new ones are. So what is of a Network comes together, and else what is of a
// tenant in it, and else what is of a namespace. What was left out before comes first, so that nobody's policies wait for as long as
// others change theirs; and then who changes least, so that all but those who change thousands of rows are in one transaction with what
// is of no namespace.
func (r *round) chooseTurns(b *batch) turns {
	w := waiting{whole: together * r.cfg.MaxBatch, sizes: map[turn]int{}, left: map[turn]int{}}
	if r.graph.Judging() == 0 || r.mostOf(b) <= w.whole {
		return turns{}
	}
	sum, goes := 0, map[nb.Ref]bool{}
	for work := range r.graph.Waiting {
		if !b.judged(work) {
			continue
		}
		if size := r.sizeOf(b, work, goes); size > 0 {
			sum += size
			for _, t := range r.turnsOf(work) {
				w.add(t, size, r.turns.left[t])
			}
		}
	}
	if sum <= w.whole {
		return turns{}
	}
	return w.choose()
}

// judged reports whether work has turns. New ports do not come before the rest, whatever their number.
func (b *batch) judged(w graph.Work) bool { return w.Grouped() && !b.fresh(w) && !orphaned(w) }

// choose chooses. Who alone changes more than a transaction takes has the room that others leave, or half of it when they had none before.
func (w *waiting) choose() turns {
	chosen := turns{left: map[turn]int{}, networks: map[string]bool{}, divided: map[turn]bool{}}
	// The zero turn is in each batch.
	room, reserved, parts := w.whole-w.sizes[turn{}], 0, map[turn][]turn{}
	var fit, large []turn
	for _, t := range w.smallest {
		levels := t.levels()
		whole := levels[0]
		if w.sizes[whole] > w.whole && len(levels) > 1 {
			whole = levels[1]
		}
		switch known := parts[whole] != nil; {
		case t == turn{}:
			continue
		case known:
		case w.sizes[whole] <= w.whole:
			fit = append(fit, whole)
		default:
			large = append(large, whole)
			if w.left[whole] > 0 {
				reserved = max(room, 0) / 2
			}
		}
		parts[whole] = append(parts[whole], t)
	}
	for i, t := range w.ordered(fit) {
		if size := w.sizes[t]; i == 0 || size <= room-reserved {
			room -= size
		} else {
			chosen.leave(w, parts[t]...)
		}
	}
	for i, t := range w.ordered(large) {
		room -= w.divide(chosen, parts[t], room, i == 0 && (reserved > 0 || len(fit) == 0))
	}
	return chosen
}

// divide chooses among the namespaces of a tenant who changes more than a transaction takes, and returns how much room they have. A
// namespace that alone does is divided. some: something is in the batch, however little room there is.
func (w *waiting) divide(chosen turns, namespaces []turn, room int, some bool) (used int) {
	for _, t := range w.ordered(namespaces) {
		switch size := w.sizes[t]; {
		case used < room && size > w.whole, some && used == 0:
			if chosen.divided[t] = size > w.whole; chosen.divided[t] {
				size = max(room, 1)
			}
			used += size
		case used+size <= room:
			used += size
		default:
			chosen.leave(w, t)
		}
	}
	return used
}

// ordered sorts turns by who comes first.
func (w *waiting) ordered(all []turn) []turn {
	slices.SortStableFunc(all, func(x, y turn) int {
		return cmp.Or(cmp.Compare(w.left[y], w.left[x]), rank(x)-rank(y), cmp.Compare(w.sizes[x], w.sizes[y]))
	})
	return all
}

// rank orders turns: what is of no namespace comes before the rest.
func rank(t turn) int {
	if t.share == everyones {
		return 0
	}
	return 1
}

// leftOut reports whether work is not in this batch because of the turns. What is of no namespace and decides nothing, such as a route,
// waits for all that is left out in its Network. A new port waits for what is of no namespace, and until its namespace is not divided.
func (r *round) leftOut(b *batch, w graph.Work) bool {
	switch fresh := b.fresh(w); {
	case len(r.turns.left)+len(r.turns.divided) == 0:
		return false
	case fresh && r.dividedHere(w), orphaned(w):
		return true
	case !fresh && !w.Grouped() && w.Owner.Namespace == "":
		return r.turns.networks[r.networkOf(w)]
	case fresh && r.turns.left[turn{network: r.networkOf(w), share: everyones}] > 0:
		return true
	}
	return !slices.ContainsFunc(r.turnsOf(w), func(t turn) bool { return r.turns.left[t] == 0 })
}

// orphaned reports whether work is a group that nobody wants, and that nobody has given back: ACLs that wait to be changed may name it.
func orphaned(w graph.Work) bool {
	if w.Owner.Kind == nb.KindOrphan {
		for ref := range w.Refs {
			return nb.Groups(ref.Table)
		}
	}
	return false
}

// dividedHere reports whether work is of a turn that is divided.
func (r *round) dividedHere(w graph.Work) bool {
	return len(r.turns.divided) > 0 && !slices.ContainsFunc(r.turnsOf(w), func(t turn) bool { return !r.turns.divided[t] })
}

// turnsOf are the smallest turns in which work comes: one, but for a port group that policies of several namespaces name. It comes with
// the first of them. One that judges by itself closes pods, and is never left out.
func (r *round) turnsOf(w graph.Work) []turn {
	network := r.networkOf(w)
	if network == "" {
		return []turn{{}}
	}
	namespaces := []string{w.Owner.Namespace}
	if w.Owner.Kind == nb.KindPortGroup {
		if users := r.graph.Users(w.Owner); len(users) > 0 {
			namespaces = users
		} else if r.judgesItself(w.Owner) {
			return []turn{{}}
		}
	}
	out := make([]turn, 0, len(namespaces))
	for _, namespace := range namespaces {
		t := turn{network: network, share: everyones}
		if namespace != "" {
			t.share, t.namespace = r.state.Share(namespace), namespace
		}
		out = append(out, t)
	}
	return out
}

// judgesItself reports whether an owner has ACLs: that of a port group is the Network's, such as the one of all isolated pods.
func (r *round) judgesItself(owner nb.Owner) bool {
	facts, _ := r.graph.Facts(owner)
	return slices.ContainsFunc(facts.Rows, func(row nb.Row) bool { return row.Table() == nb.TableACL })
}

// networkOf is the Network to which work belongs: its owner's, or the one where the owner wants its first place, or had one. It is ""
// when there is none.
func (r *round) networkOf(w graph.Work) string {
	if network, ok := w.Owner.Network(); ok {
		return network
	}
	of := func(m nb.Member) string {
		owner, _ := r.graph.Owner(m.Row)
		network, _ := owner.Network()
		return network
	}
	facts, _ := r.graph.Facts(w.Owner)
	for _, m := range facts.Members {
		if network := of(m); network != "" {
			return network
		}
	}
	for m := range w.Members {
		if network := of(m); network != "" {
			return network
		}
	}
	return ""
}

// mostOf is about how many rows and elements may differ at most.
func (r *round) mostOf(b *batch) (n int) {
	for w := range r.graph.Waiting {
		if !b.judged(w) {
			continue
		}
		n += len(w.Refs) + len(w.Members)
		for ref := range w.Refs {
			for _, column := range nb.MemberColumns(ref.Table) {
				n += r.graph.Size(nb.Set{Row: ref, Column: column})
			}
		}
	}
	return n
}

// sizeOf is about how many rows and elements differ from the database on account of work. goes remembers which rows are policies' groups
// that go.
func (r *round) sizeOf(b *batch, w graph.Work, goes map[nb.Ref]bool) (n int) {
	for ref := range w.Refs {
		want, wanted := r.graph.Row(ref)
		there := b.there.Has(ref)
		switch {
		case wanted != there:
			n++
			for _, column := range nb.MemberColumns(ref.Table) {
				n += r.graph.Size(nb.Set{Row: ref, Column: column})
			}
		case wanted && ref.Table == nb.TableACL:
			if have, _ := b.there.Row(ref); have != nil && plan.Differs(want, have) {
				n++
			}
		}
	}
	for m := range w.Members {
		if b.there.HasMember(m) != r.graph.Wants(m) && !r.comesWithGroup(b, m.Row, goes) {
			n++
		}
	}
	return n
}

// comesWithGroup reports whether places in a row come or go with it as a whole.
func (r *round) comesWithGroup(b *batch, ref nb.Ref, goes map[nb.Ref]bool) bool {
	if !nb.Groups(ref.Table) {
		return false
	}
	if !b.there.Has(ref) {
		return true
	}
	if _, wanted := r.graph.Row(ref); wanted {
		return false
	}
	is, known := goes[ref]
	if !known {
		row, there := b.there.Row(ref)
		is = there && plan.PoliciesGroup(row)
		goes[ref] = is
	}
	return is
}
