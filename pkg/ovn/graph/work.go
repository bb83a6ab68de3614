package graph

import (
	"slices"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Work is what has to be compared with the database on one owner's account.
type Work struct {
	Owner   nb.Owner
	Refs    map[nb.Ref]struct{}
	Members map[nb.Member]struct{}
	// first: the owner stands in the queue of those that bring containers.
	first bool
	// judges: it names rows that decide what passes, about pods of these scopes.
	judges bool
	scopes []scope
}

// scope is whose pods work judges: those of a namespace in a Network. Without a namespace these are pods of any, and without a Network
// too those of any Network.
type scope struct{ network, namespace string }

// Grouped reports whether the work decides what passes: by an ACL, a port group or an address set, or by a place in one of these.
func (w Work) Grouped() bool {
	if w.judges {
		return true
	}
	for m := range w.Members {
		if nb.Groups(m.Row.Table) {
			return true
		}
	}
	return false
}

// Judges reports whether the work names ACLs, where they hang, port groups or address sets themselves.
func (w Work) Judges() bool { return w.judges }

// work is a queue of owners, each once. Those that bring containers come before the others, since a pod's port needs its switch.
// Within a rank it is first come, first served.
type work struct {
	pending map[nb.Owner]*Work
	queues  [3][]nb.Owner
	// judging counts the pending work that judges, judgingIn that of each Network, and judgingFor that of each scope. Network "" has what
	// is of none, or of several.
	judging    int
	judgingIn  map[string]int
	judgingFor map[scope]int
}

const (
	containers = iota
	// late is what was put off, and brings no containers.
	late
	contents
)

func newWork() work {
	return work{pending: map[nb.Owner]*Work{}, judgingIn: map[string]int{}, judgingFor: map[scope]int{}}
}

func (w *work) of(owner nb.Owner) *Work {
	p := w.pending[owner]
	if p == nil {
		p = &Work{Owner: owner, Refs: map[nb.Ref]struct{}{}, Members: map[nb.Member]struct{}{}}
		w.pending[owner] = p
		w.queues[contents] = append(w.queues[contents], owner)
	}
	return p
}

// touch makes work of a row, and touchMember of an element.
func (g *Graph) touch(owner nb.Owner, ref nb.Ref) {
	g.work.of(owner).Refs[ref] = struct{}{}
	// A policy gives a port group back only when no ACL names the group any more. Nothing is judged otherwise when such a group goes.
	if nb.Judges(ref.Table) && (owner.Kind != nb.KindPortGroup || len(g.rows[ref]) > 0) {
		g.judge(owner)
	}
	if nb.IsRoot(ref.Table) {
		g.work.rank(owner, true)
	}
}

func (g *Graph) touchMember(owner nb.Owner, m nb.Member) {
	g.work.of(owner).Members[m] = struct{}{}
	// The ACL itself may be another owner's.
	if m.Column == nb.ColumnACLs {
		g.judge(owner)
	}
}

func (g *Graph) judge(owner nb.Owner) {
	if p := g.work.pending[owner]; !p.judges {
		p.judges, p.scopes = true, g.scopesOf(owner)
		g.work.count(p.scopes, 1)
	}
}

// scopesOf returns whose pods the rows of an owner judge.
func (g *Graph) scopesOf(owner nb.Owner) []scope {
	network, ok := owner.Network()
	switch users := g.users[owner]; {
	case !ok:
		return []scope{{}}
	case len(users) == 0:
		return []scope{{network, owner.Namespace}}
	default:
		scopes := make([]scope, 0, len(users))
		for namespace := range users {
			scopes = append(scopes, scope{network, namespace})
		}
		return scopes
	}
}

// count counts work in its scopes, which are of one Network.
func (w *work) count(scopes []scope, n int) {
	w.judging += n
	tally(w.judgingIn, scopes[0].network, n)
	for _, s := range scopes {
		tally(w.judgingFor, s, n)
	}
}

// tally counts; what is not there counts nothing.
func tally[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

// rank puts an owner with containers into the first queue too; Next takes each owner where it comes first.
func (w *work) rank(owner nb.Owner, holdsRoot bool) {
	if p := w.pending[owner]; holdsRoot && p != nil && !p.first {
		p.first = true
		w.queues[containers] = append(w.queues[containers], owner)
	}
}

// Pending is the number of owners with work.
func (g *Graph) Pending() int { return len(g.work.pending) }

// Judging is the number of owners with work that judges.
func (g *Graph) Judging() int { return g.work.judging }

// Waiting goes through the pending work, containers first.
func (g *Graph) Waiting(yield func(Work) bool) {
	for q, owners := range g.work.queues {
		for _, owner := range owners {
			p := g.work.pending[owner]
			if p == nil || p.first && q != containers {
				continue
			}
			if !yield(*p) {
				return
			}
		}
	}
}

// JudgingFor reports whether there is work that judges, and may concern the Network whose rows an owner has.
func (g *Graph) JudgingFor(owner nb.Owner) bool {
	network, ok := owner.Network()
	return !ok && g.work.judging > 0 || g.work.judgingIn[network] > 0 || g.work.judgingIn[""] > 0
}

// JudgingAbout reports whether there is work that judges, and may concern pods of a namespace in the Network whose rows an owner has: work
// of that namespace's policies, or of what is of no namespace.
func (g *Graph) JudgingAbout(owner nb.Owner, namespace string) bool {
	network, ok := owner.Network()
	of := g.work.judgingFor
	return !ok && g.work.judging > 0 || of[scope{network, namespace}] > 0 || of[scope{network, ""}] > 0 || of[scope{}] > 0
}

// Busy reports whether an owner has work that nobody has taken.
func (g *Graph) Busy(owner nb.Owner) bool { return g.work.pending[owner] != nil }

// Next takes the next owner's work; false when there is none. Work that could not be done is given back with
// TouchOwner, Touch, Return or PutOff.
func (g *Graph) Next() (Work, bool) {
	for q := range g.work.queues {
		if w, ok := g.work.take(q); ok {
			return w, true
		}
	}
	return Work{}, false
}

// TakeContents calls take with each work that brings no containers, work that was put off first. Work for which take returns true is
// no longer pending; the rest keeps its place.
func (g *Graph) TakeContents(take func(Work) bool) {
	w := &g.work
	for _, q := range []int{late, contents} {
		w.queues[q] = slices.DeleteFunc(w.queues[q], func(owner nb.Owner) bool {
			p := w.pending[owner]
			// Who brings containers stands in their queue, too.
			if p == nil || p.first {
				return true
			}
			if !take(*p) {
				return false
			}
			w.remove(p)
			return true
		})
	}
}

func (w *work) remove(p *Work) {
	delete(w.pending, p.Owner)
	if p.judges {
		w.count(p.scopes, -1)
	}
}

func (w *work) take(q int) (Work, bool) {
	for len(w.queues[q]) > 0 {
		owner := w.queues[q][0]
		w.queues[q] = w.queues[q][1:]
		p := w.pending[owner]
		if p == nil || p.first && q != containers {
			continue
		}
		w.remove(p)
		return *p, true
	}
	return Work{}, false
}

// PutOff gives back work that was taken and had no room. It keeps its place: what came later comes after it.
func (g *Graph) PutOff(works []Work) {
	var first, others []nb.Owner
	for _, w := range works {
		if g.work.pending[w.Owner] == nil {
			g.work.pending[w.Owner] = &Work{Owner: w.Owner, Refs: map[nb.Ref]struct{}{}, Members: map[nb.Member]struct{}{}, first: w.first}
			if w.first {
				first = append(first, w.Owner)
			} else {
				others = append(others, w.Owner)
			}
		}
		g.Return(w)
	}
	g.work.queues[containers] = append(first, g.work.queues[containers]...)
	g.work.queues[late] = append(others, g.work.queues[late]...)
}

// Return puts work back that was taken but not done. It queues as if it were new.
func (g *Graph) Return(w Work) {
	for ref := range w.Refs {
		g.touch(w.Owner, ref)
	}
	for m := range w.Members {
		g.touchMember(w.Owner, m)
	}
}
