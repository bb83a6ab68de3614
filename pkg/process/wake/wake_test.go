package wake

import (
	"sync"
	"testing"
)

func woken(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestSignalHoldsOneWakeUp(t *testing.T) {
	t.Parallel()
	s := NewSignal()
	if woken(s) {
		t.Error("a new Signal holds a wake-up")
	}
	for range 3 {
		s.Send()
	}
	if !woken(s) {
		t.Error("a wake-up is lost")
	}
	if woken(s) {
		t.Error("it holds more than one")
	}
}

func TestWaitersAreWokenByTheirKeyUntilTheyStop(t *testing.T) {
	t.Parallel()
	var w Waiters[string]
	w.Wake("a") // nobody waits
	first, stopFirst := w.Watch("a")
	second, stopSecond := w.Watch("a")
	w.Wake("b")
	if woken(first) || woken(second) {
		t.Error("woken by another key")
	}
	w.Wake("a")
	w.Wake("a")
	if !woken(first) || !woken(second) || woken(first) {
		t.Error("not each is woken once")
	}
	stopFirst()
	w.Wake("a")
	if woken(first) || !woken(second) {
		t.Error("stop does not stop one alone")
	}
	stopSecond()
	if w.Len() != 0 {
		t.Errorf("%d keys are still watched", w.Len())
	}
}

// A change that is made after a waiter has read the state wakes it.
func TestNoChangeIsMissed(t *testing.T) {
	t.Parallel()
	const last = 1000
	var (
		w       Waiters[int]
		mu      sync.Mutex
		state   int
		running sync.WaitGroup
	)
	read := func() int {
		mu.Lock()
		defer mu.Unlock()
		return state
	}
	for range 4 {
		running.Go(func() {
			woken, stop := w.Watch(0)
			defer stop()
			for read() < last {
				<-woken
			}
		})
	}
	for range last {
		mu.Lock()
		state++
		mu.Unlock()
		w.Wake(0)
	}
	running.Wait()
}
