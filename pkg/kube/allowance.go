package kube

import (
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

const (
	// repeatEvents is how long the same words about the same object are not repeated.
	repeatEvents = 5 * time.Minute
	// rememberEvents is how many are remembered for that at least; at most it is twice as many.
	rememberEvents = 4096
	// A share of Events, of a namespace, a Tenant or the operator (shareOf): enough for all pods of a Deployment that fail at once,
	// and in the long run a small part of eventsPerSecond, so that a tenant whose pods fail by thousands does not silence the
	// others.
	shareEventsPerSecond, shareEventsBurst = 1, 100
	// rememberShares is of how many shares the use is known at least.
	rememberShares = 1024
)

// said is what was said about whom.
type said struct {
	uid, reason, message string
}

// allowance decides which Events may go. Its memory is bounded, and what was used last is forgotten last.
type allowance struct {
	mu     sync.Mutex
	sent   recent[said, time.Time]
	shares recent[string, flowcontrol.PassiveRateLimiter]
}

func newAllowance() *allowance {
	return &allowance{
		sent:   recent[said, time.Time]{size: rememberEvents},
		shares: recent[string, flowcontrol.PassiveRateLimiter]{size: rememberShares},
	}
}

// take reports whether something may be said now about an object: it was not said for a while, and the share that it is from is
// not used up. What may not be said is not remembered as said.
func (a *allowance) take(from string, s said) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if last, there := a.sent.get(s); there && now.Sub(last) < repeatEvents {
		return false
	}
	share, there := a.shares.get(from)
	if !there {
		share = flowcontrol.NewTokenBucketPassiveRateLimiter(shareEventsPerSecond, shareEventsBurst)
		a.shares.put(from, share)
	}
	if !share.TryAccept() {
		return false
	}
	a.sent.put(s, now)
	return true
}

// recent holds what was used last: at least size entries, at most twice as many. It fills one generation, and when
// that is full forgets the one before.
type recent[K comparable, V any] struct {
	size       int
	young, old map[K]V
}

func (r *recent[K, V]) get(k K) (V, bool) {
	v, there := r.young[k]
	if there {
		return v, true
	}
	if v, there = r.old[k]; there {
		r.put(k, v)
	}
	return v, there
}

func (r *recent[K, V]) put(k K, v V) {
	if _, there := r.young[k]; !there && (r.young == nil || len(r.young) >= r.size) {
		r.young, r.old = make(map[K]V), r.young
	}
	r.young[k] = v
}
