package access

import (
	"crypto/sha256"
	"sync"
	"time"
)

// Verdicts remembers verdicts. It is safe for concurrent use; what is set of it, is set before.
type Verdicts[V comparable] struct {
	// GoodAge is how old the verdict Good may be by which somebody is answered again, BadAge any other, which may have been mended.
	Good            V
	GoodAge, BadAge time.Duration
	// Most bounds how many are remembered.
	Most int

	mu sync.Mutex
	// given has the verdicts by the sums of what they answer: tokens are not kept.
	given map[[sha256.Size]byte]verdict[V]
}

type verdict[V comparable] struct {
	is    V
	given time.Time
}

// Recall is the verdict on a question, if one is known that is not too old.
func (v *Verdicts[V]) Recall(question string) (is V, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	last, known := v.given[sha256.Sum256([]byte(question))]
	age := v.BadAge
	if last.is == v.Good {
		age = v.GoodAge
	}
	return last.is, known && time.Since(last.given) < age
}

// Remember remembers a verdict that is given now.
func (v *Verdicts[V]) Remember(question string, is V) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.given == nil || len(v.given) >= v.Most {
		// Who makes up questions makes others be asked about again, and no more.
		v.given = map[[sha256.Size]byte]verdict[V]{}
	}
	v.given[sha256.Sum256([]byte(question))] = verdict[V]{is, time.Now()}
}

// Forget forgets all verdicts.
func (v *Verdicts[V]) Forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.given)
}
