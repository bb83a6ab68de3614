package pass

import "time"

// Timers say for which keys something changes by nothing but time.
type Timers[K comparable] struct {
	due map[K]time.Time
	// next is the first of them; zero: none.
	next time.Time
}

// NewTimers makes timers of which none is set.
func NewTimers[K comparable]() *Timers[K] { return &Timers[K]{due: map[K]time.Time{}} }

// Set puts a key's time; zero takes it away.
func (t *Timers[K]) Set(key K, at time.Time) {
	delete(t.due, key)
	if !at.IsZero() {
		t.due[key] = at
		t.next = Earlier(t.next, at)
	}
}

// Turn returns the keys whose time has come. They keep it until it is set anew.
func (t *Timers[K]) Turn(now time.Time) []K {
	if t.next.IsZero() || now.Before(t.next) {
		return nil
	}
	var keys []K
	t.next = time.Time{}
	for key, due := range t.due {
		if due.After(now) {
			t.next = Earlier(t.next, due)
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

// Next is when Turn is to be called; zero: never.
func (t *Timers[K]) Next() time.Time { return t.next }

// Earlier is the first of two moments; zero is none.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
