package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
)

// Loads bound what the objects of each tenant weigh together, and say which of them are beyond the bound.
//
//	Enter, Leave --> Settle --> Beyond
//
// The older come before the younger, and one that does not fit leaves its room to the next. Nothing else counts: so the
// answer follows from the objects alone, and is the same after a restart.
type Loads[K objectKey] struct {
	bound   int
	entered map[K]load
	// shares have the objects of each tenant, and sums what these weigh.
	shares pass.Index[string, K]
	sums   map[string]int
	// beyond are the objects that are beyond the bound, by tenant, and stale the tenants of which that is to be found out.
	beyond pass.Index[string, K]
	stale  map[string]struct{}
}

// load is an object that counts for a tenant.
type load struct {
	share   string
	created time.Time
	weight  int
}

// NewLoads makes the loads of nobody.
func NewLoads[K objectKey](bound int) *Loads[K] {
	return &Loads[K]{
		bound: bound, entered: map[K]load{}, shares: pass.Index[string, K]{}, sums: map[string]int{},
		beyond: pass.Index[string, K]{}, stale: map[string]struct{}{},
	}
}

// Enter says that an object counts for a tenant, and what it weighs; nothing when the weight is 0.
func (l *Loads[K]) Enter(key K, share string, created time.Time, weight int) {
	now, old := load{share, created, weight}, l.entered[key]
	if old.share == now.share && old.weight == weight && old.created.Equal(created) {
		return
	}
	l.Leave(key)
	if weight == 0 {
		return
	}
	l.entered[key] = now
	l.shares.Add(share, key)
	l.sums[share] += weight
	l.mark(share)
}

// Leave says that an object counts for nobody.
func (l *Loads[K]) Leave(key K) {
	old, is := l.entered[key]
	if !is {
		return
	}
	delete(l.entered, key)
	l.mark(old.share)
	l.shares.Drop(old.share, key)
	l.beyond.Drop(old.share, key)
	if l.sums[old.share] -= old.weight; l.sums[old.share] == 0 {
		delete(l.sums, old.share)
	}
}

// mark notes that Settle must judge a tenant again. It skips a tenant that neither is nor was over the bound.
func (l *Loads[K]) mark(share string) {
	if l.sums[share] > l.bound || len(l.beyond[share]) > 0 {
		l.stale[share] = struct{}{}
	}
}

// Settle finds out who is beyond the bound, and returns those that are and were not, or the other way round, in order.
func (l *Loads[K]) Settle() (turned []K) {
	for share := range l.stale {
		before := l.beyond[share]
		delete(l.beyond, share)
		for _, key := range l.over(share) {
			if l.beyond.Add(share, key); !has(before, key) {
				turned = append(turned, key)
			}
		}
		for key := range before {
			if !has(l.beyond[share], key) {
				turned = append(turned, key)
			}
		}
	}
	clear(l.stale)
	slices.SortFunc(turned, func(a, b K) int { return cmp.Compare(a.String(), b.String()) })
	return turned
}

func has[K comparable](set map[K]struct{}, key K) bool {
	_, is := set[key]
	return is
}

// over are the objects of a tenant that do not fit.
func (l *Loads[K]) over(share string) (out []K) {
	if l.sums[share] <= l.bound {
		return nil
	}
	keys := make([]K, 0, len(l.shares[share]))
	for key := range l.shares[share] {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b K) int {
		return cmp.Or(l.entered[a].created.Compare(l.entered[b].created), cmp.Compare(a.String(), b.String()))
	})
	room := l.bound
	for _, key := range keys {
		if w := l.entered[key].weight; w <= room {
			room -= w
		} else {
			out = append(out, key)
		}
	}
	return out
}

// Beyond reports whether an object is beyond the bound of its tenant. It is asked after Settle.
func (l *Loads[K]) Beyond(key K) bool { return has(l.beyond[l.entered[key].share], key) }
