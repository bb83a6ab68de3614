package engine

import (
	"maps"
	"time"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// retries remember what the database refused and when it is tried again: later each time. The work is kept, not
// only its owner: of a row that nobody wants any more, nothing else would know.
type retries struct {
	attempts map[nb.Owner]attempt
}

type attempt struct {
	work  graph.Work
	due   time.Time
	pause time.Duration
	// refused is when the database refused it; zero if it has not.
	refused time.Time
	// asked: the work was handed out and has not come back yet.
	asked bool
}

func newRetries() *retries { return &retries{attempts: map[nb.Owner]attempt{}} }

// add plans the next attempt at work that was refused and returns the pause before it.
func (r *retries) add(w graph.Work, now time.Time) time.Duration {
	pause := retryFirst
	if a, ok := r.attempts[w.Owner]; ok {
		pause = min(max(2*a.pause, retryFirst), retryMax)
		w = merged(w, a.work)
	}
	r.attempts[w.Owner] = attempt{work: w, due: now.Add(pause), pause: pause, refused: now}
	return pause
}

// wait plans the next attempt at work that was not refused, but may not be done yet.
func (r *retries) wait(w graph.Work, due time.Time) {
	a, had := r.attempts[w.Owner]
	if had {
		w = merged(w, a.work)
	}
	r.attempts[w.Owner] = attempt{work: w, due: due, pause: a.pause, refused: a.refused}
}

// join adds to work of an owner what was refused of it before, so that all of it is done together or refused
// together.
func (r *retries) join(w graph.Work) graph.Work {
	if a, ok := r.attempts[w.Owner]; ok {
		return merged(w, a.work)
	}
	return w
}

// refused reports whether the database has refused an owner's rows and has not accepted them since.
func (r *retries) refused(owner nb.Owner) bool { return !r.attempts[owner].refused.IsZero() }

// renewed is when an owner that the database has refused may be tried again because it wants something else now: it need not wait
// for all of its pause, and it does not take the database up each time either.
func (r *retries) renewed(owner nb.Owner) time.Time {
	a := r.attempts[owner]
	return a.refused.Add(min(a.pause, retryChanged))
}

// forget is called when all of an owner's work was accepted.
func (r *retries) forget(owner nb.Owner) { delete(r.attempts, owner) }

// next is the time until the next attempt is due; false when none is planned.
func (r *retries) next(now time.Time) (time.Duration, bool) {
	var first time.Time
	for _, a := range r.attempts {
		if !a.asked && (first.IsZero() || a.due.Before(first)) {
			first = a.due
		}
	}
	if first.IsZero() {
		return 0, false
	}
	return max(first.Sub(now), 0), true
}

// due hands out the work whose time has come, each once.
func (r *retries) due(now time.Time) []graph.Work {
	var works []graph.Work
	for owner, a := range r.attempts {
		if !a.asked && !a.due.After(now) {
			a.asked = true
			r.attempts[owner] = a
			works = append(works, a.work)
		}
	}
	return works
}

// merged is the work of both, of the same owner.
func merged(a, b graph.Work) graph.Work {
	both := graph.Work{Owner: a.Owner, Refs: maps.Clone(a.Refs), Members: maps.Clone(a.Members)}
	if both.Refs == nil {
		both.Refs = map[nb.Ref]struct{}{}
	}
	if both.Members == nil {
		both.Members = map[nb.Member]struct{}{}
	}
	maps.Copy(both.Refs, b.Refs)
	maps.Copy(both.Members, b.Members)
	return both
}
