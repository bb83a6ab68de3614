package ovsdb

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/atoll-net/atoll/pkg/nb"
)

// mirror holds what the server said the database holds. A row in it is never changed: a changed one takes its place, so
// that whoever has a row may keep it. Elements of member columns are kept apart from their rows, so that one that comes
// or goes costs the same whatever the number of the others.
type mirror struct {
	layouts map[nb.Table]*layout
	// order is that in which an update's tables are read: those whose rows are elements of others first.
	order  []nb.Table
	values values

	mu      sync.RWMutex
	rows    map[nb.Table]map[string]nb.Row
	sets    map[nb.Set]map[string]struct{}
	changes Changes
}

func newMirror() *mirror {
	m := &mirror{
		layouts: layouts(), values: values{names: map[string]string{}},
		rows: map[nb.Table]map[string]nb.Row{}, sets: map[nb.Set]map[string]struct{}{}, changes: newChanges(),
	}
	for table := range m.layouts {
		m.rows[table] = map[string]nb.Row{}
		m.order = append(m.order, table)
	}
	slices.SortFunc(m.order, func(a, b nb.Table) int { return len(m.layouts[a].members) - len(m.layouts[b].members) })
	return m
}

// update takes in what changed: {TABLE: {UUID: {"initial", "insert", "modify" or "delete": ROW}}}, as ovsdb-server(7)
// says under "update2". It reports whether that is anything.
func (m *mirror) update(c *cursor) (bool, error) {
	tables := map[nb.Table][]byte{}
	c.object(func(table []byte) { tables[nb.Table(table)] = c.value() })
	if c.err != nil {
		return false, c.err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, table := range m.order {
		if err := m.updateTable(m.layouts[table], tables[table]); err != nil {
			return false, fmt.Errorf("read update of %s: %w", table, err)
		}
	}
	return len(m.changes.Rows)+len(m.changes.Members) > 0, nil
}

func (m *mirror) updateTable(l *layout, text []byte) error {
	if text == nil {
		return nil
	}
	c, failed := &cursor{text: text}, error(nil)
	c.object(func(uuid []byte) {
		id := string(uuid)
		c.object(func(what []byte) {
			if err := m.updateRow(l, id, string(what), c); err != nil && failed == nil {
				failed = err
				c.fail()
			}
		})
	})
	if failed != nil {
		return failed
	}
	return c.err
}

func (m *mirror) updateRow(l *layout, id, what string, c *cursor) error {
	ref := nb.Ref{Table: l.table, UUID: id}
	have, there := m.rows[l.table][id]
	switch what {
	case "initial", "insert":
		if there {
			return fmt.Errorf("row %s comes a second time", id)
		}
		return m.read(l, ref, l.fresh(id), c, false)
	case "modify":
		if !there {
			return fmt.Errorf("row %s changes and is not there", id)
		}
		return m.read(l, ref, copied(have), c, true)
	case "delete":
		c.value()
		if !there {
			return fmt.Errorf("row %s goes and is not there", id)
		}
		delete(m.rows[l.table], id)
		for _, column := range l.members {
			delete(m.sets, nb.Set{In: ref, Column: column})
		}
		m.changes.Rows[ref] = struct{}{}
		return nil
	}
	return fmt.Errorf("%q: %w", what, errSyntax)
}

// read reads columns into a row of nobody's yet, and keeps it. A difference is one to what the row has.
func (m *mirror) read(l *layout, ref nb.Ref, row reflect.Value, c *cursor, difference bool) error {
	changed, failed := !difference, error(nil)
	c.object(func(column []byte) {
		if i := slices.Index(l.members, string(column)); i >= 0 {
			m.readMembers(nb.Set{In: ref, Column: l.members[i]}, c)
			return
		}
		field, known := l.fields[string(column)]
		if !known {
			c.value()
			return
		}
		changed = true
		if err := m.values.set(row.Elem().Field(field), c, difference); err != nil && failed == nil {
			failed = fmt.Errorf("column %s: %w", column, err)
			c.fail()
		}
	})
	if err := errors.Join(failed, c.err); err != nil {
		return err
	}
	if changed {
		m.rows[l.table][ref.UUID] = row.Interface().(nb.Row)
		m.changes.Rows[ref] = struct{}{}
	}
	return nil
}

// readMembers reads which elements of a set came or went: each is there afterwards if it was not before. That is what
// a difference says, and what a new row's set, which was empty before, says too.
func (m *mirror) readMembers(s nb.Set, c *cursor) {
	elements := m.sets[s]
	for _, uuid := range setOf(nil, c, false) {
		if row := m.rows[s.Target()][uuid]; row != nil {
			uuid = row.ID() // the same text, which is held once
		}
		m.changes.Members[nb.Member{Set: s, Value: uuid}] = struct{}{}
		if _, there := elements[uuid]; there {
			delete(elements, uuid)
			continue
		}
		if elements == nil {
			elements = map[string]struct{}{}
			m.sets[s] = elements
		}
		elements[uuid] = struct{}{}
	}
}

func (m *mirror) row(ref nb.Ref) (nb.Row, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	row, ok := m.rows[ref.Table][ref.UUID]
	return row, ok
}

func (m *mirror) hasMember(x nb.Member) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, ok := m.sets[x.Set][x.Value]
	return ok
}

// elements lists a set, in no order.
func (m *mirror) elements(s nb.Set) []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Collect(maps.Keys(m.sets[s]))
}

// holders finds the sets that any of some rows is in.
func (m *mirror) holders(refs map[nb.Ref]struct{}) []nb.Member {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []nb.Member
	for s, elements := range m.sets {
		target := s.Target()
		if len(refs) > len(elements) {
			for uuid := range elements {
				if _, asked := refs[nb.Ref{Table: target, UUID: uuid}]; asked {
					out = append(out, nb.Member{Set: s, Value: uuid})
				}
			}
			continue
		}
		for ref := range refs {
			if _, in := elements[ref.UUID]; in && ref.Table == target {
				out = append(out, nb.Member{Set: s, Value: ref.UUID})
			}
		}
	}
	return out
}

// adopt keeps row in the place of one that equals it, unless another has come there meanwhile.
func (m *mirror) adopt(have, row nb.Row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ref := nb.RefOf(have); m.rows[ref.Table][ref.UUID] == have {
		m.rows[ref.Table][ref.UUID] = row
	}
}

// table lists the rows of a table, in no order.
func (m *mirror) table(t nb.Table) []nb.Row {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.AppendSeq(make([]nb.Row, 0, len(m.rows[t])), maps.Values(m.rows[t]))
}

// take hands over what has changed since it was last called.
func (m *mirror) take() Changes {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.changes
	m.changes = newChanges()
	return c
}
