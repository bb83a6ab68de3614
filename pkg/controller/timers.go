package controller

import (
	"time"

	"github.com/atoll-net/atoll/pkg/nb"
)

// timers say for whom something changes by nothing but time.
type timers struct {
	// due is when it does for each owner, and next the first of these; zero: never.
	due  map[nb.Owner]time.Time
	next time.Time
}

func newTimers() timers { return timers{due: map[nb.Owner]time.Time{}} }

// set puts an owner's time; zero takes it away.
func (t *timers) set(owner nb.Owner, at time.Time) {
	delete(t.due, owner)
	if !at.IsZero() {
		t.due[owner] = at
		t.next = earlier(t.next, at)
	}
}

// turn returns the owners whose time has come. They keep it until it is set anew.
func (t *timers) turn(now time.Time) []nb.Owner {
	if t.next.IsZero() || now.Before(t.next) {
		return nil
	}
	var owners []nb.Owner
	t.next = time.Time{}
	for owner, due := range t.due {
		if due.After(now) {
			t.next = earlier(t.next, due)
			continue
		}
		owners = append(owners, owner)
	}
	return owners
}

// earlier is the first of two moments; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
