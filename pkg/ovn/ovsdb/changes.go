package ovsdb

import (
	"sync"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
	"github.com/atoll-net/atoll/pkg/process/wake"
)

// Changes is what has changed in the database since it was last asked. libovsdb drops news when more than 65,536 wait;
// its rows are right even so.
type Changes struct {
	// Rows that came, went or differ in a column that is not a member column.
	Rows map[nb.Ref]struct{}
	// Members that came into their set or went from it; those of a row that went are not among them.
	Members map[nb.Member]struct{}
}

func newChanges() Changes {
	return Changes{Rows: map[nb.Ref]struct{}{}, Members: map[nb.Member]struct{}{}}
}

// changes gathers them. libovsdb reports the rows that the database holds at first in the same way as new ones, and goes on to do
// so after the mirror is whole. Those count as no changes.
type changes struct {
	mu    sync.Mutex
	now   Changes
	ready wake.Signal
	// early has the UUIDs of rows that were told before the mirror was whole; nil once it is.
	early map[string]struct{}
	// untold has the UUIDs of rows that the mirror held when it was whole, and that are still to be told.
	untold map[string]struct{}
}

func newGathering() changes {
	return changes{now: newChanges(), ready: wake.NewSignal(), early: map[string]struct{}{}}
}

// whole says which rows the mirror holds at first. Changes are noted from here on.
func (c *changes) whole(rows map[string]struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for row := range c.early {
		delete(rows, row)
	}
	c.early, c.untold = nil, rows
}

// first reports whether what is told of a row is only that the database held it at first.
func (c *changes) first(old, row nb.Row) bool {
	if c.early != nil {
		if row != nil {
			c.early[nb.RefOf(row).UUID] = struct{}{}
		}
		return true
	}
	if old != nil && row != nil {
		return false
	}
	told := old
	if row != nil {
		told = row
	}
	uuid := nb.RefOf(told).UUID
	_, is := c.untold[uuid]
	delete(c.untold, uuid)
	return is && row != nil
}

// Ready gets a value when there are changes to take.
func (s *Session) Ready() <-chan struct{} { return s.changes.ready }

// Take returns what has changed since it was last called.
func (s *Session) Take() Changes {
	s.changes.mu.Lock()
	c := s.changes.now
	s.changes.now = newChanges()
	s.changes.mu.Unlock()
	// Those rows are in the mirror already.
	s.sets.renew()
	return c
}

func (s *Session) handler() cache.EventHandler {
	return &cache.EventHandlerFuncs{
		AddFunc:    func(_ string, m model.Model) { s.changes.note(nil, m.(nb.Row)) },
		UpdateFunc: func(_ string, old, m model.Model) { s.changes.note(old.(nb.Row), m.(nb.Row)) },
		DeleteFunc: func(_ string, m model.Model) {
			s.changes.note(m.(nb.Row), nil)
			s.sets.forget(nb.RefOf(m.(nb.Row)))
		},
	}
}

// note notes the difference between two states of a row; nil is its absence.
func (c *changes) note(old, row nb.Row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first(old, row) {
		return
	}
	if row == nil {
		c.now.Rows[nb.RefOf(old)] = struct{}{}
	} else {
		ref := nb.RefOf(row)
		columns := nb.MemberColumns(ref.Table)
		if old == nil || len(columns) == 0 || plan.Differs(old, row) {
			c.now.Rows[ref] = struct{}{}
		}
		for _, column := range columns {
			c.noteMembers(nb.Set{Row: ref, Column: column}, old, row)
		}
	}
	c.ready.Send()
}

// noteMembers notes what came into a member column and what went from it; old may be nil.
func (c *changes) noteMembers(set nb.Set, old, row nb.Row) {
	var came, went []string
	switch {
	case set.IsMap():
		had, has := map[string]string(nil), nb.Pairs(row, set.Column)
		if old != nil {
			had = nb.Pairs(old, set.Column)
		}
		came, went = without(has, had), without(had, has)
	case old == nil:
		came = nb.Members(row, set.Column)
	default:
		came, went = difference(nb.Members(old, set.Column), nb.Members(row, set.Column))
	}
	for _, list := range [][]string{came, went} {
		for _, value := range list {
			c.now.Members[nb.Member{Set: set, Value: value}] = struct{}{}
		}
	}
}
