package controller

import (
	"time"

	"github.com/atoll-net/atoll/pkg/nb"
)

// retries remember when owners that the database refused are tried again: later each time.
type retries struct {
	at map[nb.Owner]attempt
}

type attempt struct {
	due   time.Time
	pause time.Duration
	// asked: the owner was handed out and has not come back yet.
	asked bool
}

func newRetries() *retries { return &retries{at: map[nb.Owner]attempt{}} }

// add plans the next attempt and returns the pause before it.
func (r *retries) add(owner nb.Owner, now time.Time) time.Duration {
	pause := retryFirst
	if a, ok := r.at[owner]; ok {
		pause = min(2*a.pause, retryMax)
	}
	r.at[owner] = attempt{due: now.Add(pause), pause: pause}
	return pause
}

// forget is called when an owner's rows were accepted.
func (r *retries) forget(owner nb.Owner) { delete(r.at, owner) }

// next is the time until the next attempt is due; false when none is planned.
func (r *retries) next(now time.Time) (time.Duration, bool) {
	var first time.Time
	for _, a := range r.at {
		if !a.asked && (first.IsZero() || a.due.Before(first)) {
			first = a.due
		}
	}
	if first.IsZero() {
		return 0, false
	}
	return max(first.Sub(now), 0), true
}

// due hands out the owners whose time has come, each once.
func (r *retries) due(now time.Time) []nb.Owner {
	var owners []nb.Owner
	for owner, a := range r.at {
		if !a.asked && !a.due.After(now) {
			a.asked = true
			r.at[owner] = a
			owners = append(owners, owner)
		}
	}
	return owners
}
