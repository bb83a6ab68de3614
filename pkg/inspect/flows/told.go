package flows

import (
	"hash/maphash"
	"time"

	"github.com/atoll-net/atoll/pkg/node/nodeapi"
)

// maxTold bounds how much of one generation is remembered. What is told again of what came before is told twice.
const maxTold = 1 << 16

// Told remembers what was told as far back as it may be told again (nodeapi.MaxAgain), so that nobody hears of it twice. It is
// for one goroutine.
type Told[K comparable] struct {
	seed maphash.Seed
	// now and before are two generations.
	now, before map[uint64]struct{}
	begun       time.Time
}

// NewTold remembers nothing yet.
func NewTold[K comparable]() *Told[K] {
	return &Told[K]{seed: maphash.MakeSeed(), now: map[uint64]struct{}{}, begun: time.Now()}
}

// First reports whether something is told for the first time.
func (t *Told[K]) First(key K) bool {
	if time.Since(t.begun) > nodeapi.MaxAgain || len(t.now) >= maxTold {
		t.now, t.before, t.begun = map[uint64]struct{}{}, t.now, time.Now()
	}
	sum := maphash.Comparable(t.seed, key)
	_, now := t.now[sum]
	_, before := t.before[sum]
	t.now[sum] = struct{}{}
	return !now && !before
}
