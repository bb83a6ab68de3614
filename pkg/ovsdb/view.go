package ovsdb

import (
	"github.com/atoll-net/atoll/pkg/nb"
)

// View is a Session's mirror for one round of comparisons: it looks each set up once. What changes meanwhile
// comes as Changes afterwards.
type View struct {
	*Session
	sets map[nb.Set]map[string]struct{}
}

// View starts a round.
func (s *Session) View() *View { return &View{Session: s, sets: map[nb.Set]map[string]struct{}{}} }

// HasMember reports whether an element is in its set.
func (v *View) HasMember(m nb.Member) bool {
	_, ok := v.Elements(m.Set)[m.Value]
	return ok
}

// Elements are the elements of a set.
func (v *View) Elements(s nb.Set) map[string]struct{} {
	elements, ok := v.sets[s]
	if !ok {
		elements = map[string]struct{}{}
		if row, exists := v.Row(s.In); exists {
			for _, uuid := range nb.Members(row, s.Column) {
				elements[uuid] = struct{}{}
			}
		}
		v.sets[s] = elements
	}
	return elements
}
