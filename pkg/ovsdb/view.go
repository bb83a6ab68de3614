package ovsdb

import (
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/nb"
)

// View is a Session for those who look at rows as a whole: the rows that it lists have their member columns.
type View struct{ *Session }

// View is that of a Session.
func (s *Session) View() *View { return &View{s} }

// Rows lists the rows of a table, each with its member columns; they must not be changed.
func (v *View) Rows(table nb.Table) []nb.Row {
	rows, l := v.Session.Rows(table), v.mirror.layouts[table]
	for i, row := range rows {
		if len(l.sets) == 0 {
			break
		}
		whole := copied(row)
		for column, field := range l.sets {
			elements := v.Elements(nb.Set{In: nb.RefOf(row), Column: column})
			slices.Sort(elements)
			whole.Elem().Field(field).Set(reflect.ValueOf(elements))
		}
		rows[i] = whole.Interface().(nb.Row)
	}
	return rows
}
