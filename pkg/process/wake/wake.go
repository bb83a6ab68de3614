// Package wake wakes goroutines that wait for a change and then look at the state themselves.
//
//	a change ──▶ Signal.Send, or Waiters.Wake of a key ──▶ a receive, after which the waiting goroutine reads the state
//
// What must stay true: whoever wakes never blocks; and a change after the last receive always leads to another receive, so that none is
// missed. Several changes may lead to one receive: a Signal carries no data.
package wake

import "sync"

// Signal is a channel that holds at most one wake-up. It is for one receiver at a time. Nobody closes it.
type Signal chan struct{}

// NewSignal makes a Signal that holds no wake-up.
func NewSignal() Signal { return make(Signal, 1) }

// Send wakes the receiver. It never blocks: a wake-up that is still unread is enough.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Waiters are the goroutines that wait for changes of keys. The zero value has none. Safe for concurrent use.
type Waiters[K comparable] struct {
	mu    sync.Mutex
	byKey map[K]map[Signal]struct{}
}

// Watch registers interest in a key until stop is called. woken holds at most one wake-up. A caller that reads the state only after Watch
// misses no change.
func (w *Waiters[K]) Watch(key K) (woken <-chan struct{}, stop func()) {
	s := NewSignal()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey == nil {
		w.byKey = map[K]map[Signal]struct{}{}
	}
	if w.byKey[key] == nil {
		w.byKey[key] = map[Signal]struct{}{}
	}
	w.byKey[key][s] = struct{}{}
	return s, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.byKey[key], s)
		if len(w.byKey[key]) == 0 {
			delete(w.byKey, key)
		}
	}
}

// Wake wakes all that watch a key. It never blocks.
func (w *Waiters[K]) Wake(key K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.byKey[key] {
		s.Send()
	}
}

// Len is the number of keys that are watched.
func (w *Waiters[K]) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byKey)
}
