// Package turns bounds how much is done at once, so that whoever asks for much keeps nobody else off.
//
//	who asks, known by others ──▶ Who ──▶ Turns: places in all, for one share, and kept for operators ──▶ a place, or a FullError
//
// A share is whatever one party can multiply at will: the ServiceAccounts of a Tenant's namespaces and its admins are one.
//
// What must stay true:
//
//   - Places that are kept for operators nobody else takes.
//   - A share that has no place gets one as long as any is free that it may have: a share may take another place only while as many
//     are left as it has.
//   - Those without a Tenant have half of what is not kept together: anybody makes many of them, as far as they may make namespaces.
//   - Nobody waits in vain: who leaves hands the place to the share that was served longest ago of those that may have it. All
//     without a Tenant wait in one line.
package turns

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Who is on whose account something is done.
type Who struct {
	// Share is whose places it is counted among.
	Share string `json:"share,omitempty"`
	// Tenant: the share is a Tenant's.
	Tenant bool `json:"tenant,omitempty"`
	// Operator: they may get everything.
	Operator bool `json:"operator,omitempty"`
}

// Bounds of Turns.
type Bounds struct {
	// Every is how many places there are, Each how many of them a share has at most. An operator has up to half of all.
	Every, Each int
	// Kept are those of them that only operators get. 0: it is for operators alone, and no share yields to others.
	Kept int
}

// FullError says that there is no place.
type FullError struct {
	// What they are, in words, and how many there are already.
	What string
	Has  int
	// Share: they are of the share that asks. Tenant: it is a Tenant's.
	Share, Tenant bool
}

// Error implements error.
func (e *FullError) Error() string {
	switch {
	case e.Share && e.Tenant:
		return fmt.Sprintf("your Tenant has %d %s already, and no more at once: ask again in a moment", e.Has, e.What)
	case e.Share:
		return fmt.Sprintf("you have %d %s already, and no more at once: ask again in a moment", e.Has, e.What)
	}
	return fmt.Sprintf("there are %d %s already, and no more at once: ask again in a moment", e.Has, e.What)
}

// Turns are places, and who has them.
type Turns struct {
	what   string
	bounds Bounds

	mu sync.Mutex
	// shares count the places of each share, all those that are taken, others those of them that are no operator's, and rest those
	// of no Tenant.
	shares            map[string]int
	all, others, rest int
	waiting           []*waiter
	// served is when each line was given its last place, as long as it has any or anybody waits; a place is a tick of the clock.
	served map[string]uint64
	clock  uint64
}

type waiter struct {
	who Who
	// turn is closed when they have a place.
	turn chan struct{}
}

// New makes Turns. what they are is in the words of FullError.
func New(what string, b Bounds) *Turns {
	return &Turns{what: what, bounds: b, shares: map[string]int{}, served: map[string]uint64{}}
}

// Enter takes a place, unless there is none; leave gives it back.
func (t *Turns) Enter(w Who) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.full(w); err != nil {
		return nil, err
	}
	t.count(w, 1)
	return t.leaves(w), nil
}

// Wait takes a place, and waits for one until ctx ends. How many wait, others bound.
func (t *Turns) Wait(ctx context.Context, w Who) (leave func(), err error) {
	t.mu.Lock()
	if err = t.full(w); err == nil {
		t.count(w, 1)
		t.mu.Unlock()
		return t.leaves(w), nil
	}
	wait := &waiter{w, make(chan struct{})}
	t.waiting = append(t.waiting, wait)
	t.mu.Unlock()
	select {
	case <-wait.turn:
		return t.leaves(w), nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-wait.turn:
		// It came at the same time.
		return t.leaves(w), nil
	default:
		t.waiting = slices.DeleteFunc(t.waiting, func(other *waiter) bool { return other == wait })
		t.forget()
		return nil, err
	}
}

func (t *Turns) each(w Who) int {
	if w.Operator {
		return max(t.bounds.Each, t.bounds.Every/2)
	}
	return t.bounds.Each
}

// full is a FullError unless there is a place.
func (t *Turns) full(w Who) error {
	has, none := t.shares[w.Share], &FullError{What: t.what, Has: t.all}
	switch {
	case t.all >= t.bounds.Every:
		return none
	case has >= t.each(w):
		return &FullError{What: t.what, Has: has, Share: true, Tenant: w.Tenant}
	case w.Operator, t.bounds.Kept == 0:
		return nil
	}
	common := t.bounds.Every - t.bounds.Kept
	left := min(common-t.others, t.bounds.Every-t.all)
	switch {
	case left <= 0, !w.Tenant && t.rest >= (common+1)/2:
		return none
	case has > left:
		return &FullError{What: t.what, Has: has, Share: true, Tenant: w.Tenant}
	}
	return nil
}

func (t *Turns) count(w Who, n int) {
	t.all += n
	if t.shares[w.Share] += n; t.shares[w.Share] == 0 {
		delete(t.shares, w.Share)
	}
	if !w.Operator {
		if t.others += n; !w.Tenant {
			t.rest += n
		}
	}
	if n > 0 {
		t.clock++
		t.served[w.line()] = t.clock
	}
	t.forget()
}

// noTenant is the line of those without a Tenant.
const noTenant = ""

// line is where somebody waits behind others. Those without a Tenant have one together: of whom anybody makes many, each new one
// would be next.
func (w Who) line() string {
	if w.Tenant || w.Operator {
		return w.Share
	}
	return noTenant
}

// leaves gives a place back, once, and hands on what is free then.
func (t *Turns) leaves(w Who) func() {
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.count(w, -1)
		for next := t.next(); next != nil; next = t.next() {
			t.waiting = slices.DeleteFunc(t.waiting, func(other *waiter) bool { return other == next })
			t.count(next.who, 1)
			close(next.turn)
		}
	})
}

// next is who waits and may have a place: of several the one whose line was served longest ago, or who has waited longest.
func (t *Turns) next() (out *waiter) {
	for _, wait := range t.waiting {
		if (out == nil || t.served[wait.who.line()] < t.served[out.who.line()]) && t.full(wait.who) == nil {
			out = wait
		}
	}
	return out
}

// forget keeps nothing of lines that have no place, once nobody waits. Before, who is forgotten and comes again would be next again.
func (t *Turns) forget() {
	if len(t.waiting) == 0 {
		maps.DeleteFunc(t.served, func(line string, _ uint64) bool { return line != noTenant && t.shares[line] == 0 })
	}
}
