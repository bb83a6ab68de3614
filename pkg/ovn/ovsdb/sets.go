package ovsdb

import (
	"maps"
	"slices"
	"sync"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// sets are the elements of the sets that were asked for. libovsdb gives a row only as a whole, so that each element
// would cost as much as its set is large; here a set is compared with its row once an age, and one that has changed
// costs little more than what came and went.
type sets struct {
	mu sync.Mutex
	// age is what a set must have been compared in. An older one may have changed since.
	age   uint64
	known map[nb.Set]*elements
}

type elements struct {
	age    uint64
	list   []string
	hashed map[string]struct{}
	// pairs is a map column instead, as it was read.
	pairs map[string]string
}

func newSets() sets { return sets{known: map[nb.Set]*elements{}} }

// renew begins an age: what is asked for from now on is as the rows are now, or later.
func (s *sets) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age++
}

// has reports whether an element is in its set; row gives rows.
func (s *sets) has(m nb.Member, row func(nb.Ref) (nb.Row, bool)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.known[m.Set]
	if e == nil || e.age != s.age {
		holder, there := row(m.Row)
		if !there {
			s.drop(m.Row)
			return false
		}
		if e == nil {
			e = &elements{hashed: map[string]struct{}{}}
			s.known[m.Set] = e
		}
		e.age = s.age
		if m.IsMap() {
			e.pairs = nb.Pairs(holder, m.Column)
		} else {
			e.become(nb.Members(holder, m.Column))
		}
	}
	if m.IsMap() {
		key, value := nb.SplitPair(m.Value)
		had, in := e.pairs[key]
		return in && had == value
	}
	_, in := e.hashed[m.Value]
	return in
}

// forget lets go of the sets of a row that has gone.
func (s *sets) forget(row nb.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(row)
}

func (s *sets) drop(row nb.Ref) {
	for _, column := range nb.MemberColumns(row.Table) {
		delete(s.known, nb.Set{Row: row, Column: column})
	}
}

func (e *elements) become(list []string) {
	came, went := difference(e.list, list)
	for _, uuid := range went {
		delete(e.hashed, uuid)
	}
	for _, uuid := range came {
		e.hashed[uuid] = struct{}{}
	}
	e.list = list
}

// difference finds what came into a set and what went from it. Most elements are where they were: libovsdb appends
// those that come, and puts the last one into the place of one that goes.
func difference(had, has []string) (came, went []string) {
	both := min(len(had), len(has))
	for i := range both {
		if had[i] != has[i] {
			came, went = append(came, has[i]), append(went, had[i])
		}
	}
	came, went = append(came, has[both:]...), append(went, had[both:]...)
	if len(came) == 0 || len(went) == 0 {
		return came, went
	}
	gone := make(map[string]struct{}, len(went))
	for _, uuid := range went {
		gone[uuid] = struct{}{}
	}
	came = slices.DeleteFunc(came, func(uuid string) bool {
		_, moved := gone[uuid]
		delete(gone, uuid)
		return moved
	})
	return came, slices.Collect(maps.Keys(gone))
}

// without returns the pairs of a that b lacks or has another value for.
func without(a, b map[string]string) []string {
	var out []string
	for key, value := range a {
		if other, there := b[key]; !there || other != value {
			out = append(out, nb.Pair(key, value))
		}
	}
	return out
}
