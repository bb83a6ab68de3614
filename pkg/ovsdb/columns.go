package ovsdb

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/nb"
)

// layout is how rows of one table are read: which column belongs into which field of its type.
type layout struct {
	table nb.Table
	kind  reflect.Type
	// id is the field of the row's UUID.
	id int
	// fields of the columns that belong to the row alone, and of those whose elements are kept apart.
	fields, sets map[string]int
	// members are the names of the latter.
	members []string
}

// layouts are those of the tables that we read: the ones that we write and NB_Global.
func layouts() map[nb.Table]*layout {
	out := map[nb.Table]*layout{}
	rows := []nb.Row{&nb.Global{}}
	for _, t := range nb.Tables() {
		rows = append(rows, t.New())
	}
	for _, row := range rows {
		kind := reflect.TypeOf(row).Elem()
		l := &layout{
			table: row.Table(), kind: kind, fields: map[string]int{}, sets: map[string]int{},
			members: nb.MemberColumns(row.Table()),
		}
		for i := range kind.NumField() {
			switch name := kind.Field(i).Tag.Get("ovsdb"); {
			case name == "_uuid":
				l.id = i
			case slices.Contains(l.members, name):
				l.sets[name] = i
			case name != "":
				l.fields[name] = i
			}
		}
		out[l.table] = l
	}
	return out
}

// columns are all that the monitor is asked for: what the row type has, and nothing else.
func (l *layout) columns() []string {
	return append(slices.Sorted(maps.Keys(l.fields)), l.members...)
}

// check reports what the server's schema lacks, and what we cannot read.
func (l *layout) check(schema ovsdb.DatabaseSchema) error {
	for column, field := range l.fields {
		if t := l.kind.Field(field).Type; !readable(t) {
			return fmt.Errorf("column %s of %s: Go's type %s cannot be read", column, l.table, t)
		}
	}
	table := schema.Table(string(l.table))
	if table == nil {
		return fmt.Errorf("the server has no table %s", l.table)
	}
	for _, column := range l.columns() {
		if table.Column(column) == nil {
			return fmt.Errorf("the server's table %s has no column %s", l.table, column)
		}
	}
	return nil
}

// fresh is a row with a UUID and nothing else.
func (l *layout) fresh(uuid string) reflect.Value {
	row := reflect.New(l.kind)
	row.Elem().Field(l.id).SetString(uuid)
	return row
}

// copied is a copy of a row, to be changed by set: set never changes what a field of it refers to.
func copied(row nb.Row) reflect.Value {
	from := reflect.ValueOf(row).Elem()
	to := reflect.New(from.Type())
	to.Elem().Set(from)
	return to
}

// values reads columns; keys of maps recur in every row, and are kept once.
type values struct{ names map[string]string }

// keepNames bounds how many names are kept.
const keepNames = 4096

func (v *values) name(b []byte) string {
	if s, known := v.names[string(b)]; known {
		return s
	}
	s := string(b)
	if len(v.names) < keepNames {
		v.names[s] = s
	}
	return s
}

// set reads a column into a field. A difference is one to the present value, as ovsdb-server(7) says under "update2":
// of a set the elements that come and those that go, of a map the keys that come, go (with their value) or change.
func (v *values) set(field reflect.Value, c *cursor, difference bool) error {
	switch to := field.Addr().Interface().(type) {
	case *string:
		*to = atom(c)
	case *bool:
		*to = string(c.word()) == "true"
	case *int:
		n, err := strconv.Atoi(string(c.word()))
		if err != nil {
			return errSyntax
		}
		*to = n
	case *[]string:
		*to = setOf(*to, c, difference)
	case *map[string]string:
		*to = v.mapOf(*to, c, difference)
	case **string:
		had := (*string)(nil)
		if difference {
			had = *to
		}
		*to = optional(had, setOf(nil, c, false))
	case **int:
		n, err := optionalOf(*to, c, difference, strconv.Atoi)
		*to = n
		return err
	case **bool:
		b, err := optionalOf(*to, c, difference, strconv.ParseBool)
		*to = b
		return err
	default:
		return fmt.Errorf("a column of Go's type %s cannot be read", field.Type())
	}
	return c.err
}

// readable reports whether set knows a type.
func readable(t reflect.Type) bool {
	switch reflect.Zero(t).Interface().(type) {
	case string, bool, int, []string, map[string]string, *string, *int, *bool:
		return true
	}
	return false
}

func optionalOf[T comparable](had *T, c *cursor, difference bool, parse func(string) (T, error)) (*T, error) {
	var list []T
	for _, text := range setOf(nil, c, false) {
		value, err := parse(text)
		if err != nil {
			return nil, errSyntax
		}
		list = append(list, value)
	}
	if !difference {
		had = nil
	}
	return optional(had, list), c.err
}

// optional is what a value that may be missing becomes. A difference holds the value that goes, the one that comes, or
// both.
func optional[T comparable](had *T, list []T) *T {
	for _, value := range list {
		if had == nil || *had != value {
			return &value
		}
	}
	return nil
}

// atom reads one value as text: a string, a UUID, a number or a truth value.
func atom(c *cursor) string {
	switch c.next() {
	case '"':
		return c.str()
	case '[':
		tag, values := tagged(c)
		if tag != "uuid" || len(values) != 1 {
			c.fail()
			return ""
		}
		return values[0]
	}
	return string(c.word())
}

// tagged reads ["uuid", TEXT] or ["set", [ATOM...]].
func tagged(c *cursor) (tag string, atoms []string) {
	position := 0
	c.array(func() {
		switch position++; {
		case position == 1:
			tag = c.str()
		case position == 2 && tag == "uuid":
			atoms = append(atoms, c.str())
		case position == 2 && tag == "set":
			c.array(func() { atoms = append(atoms, atom(c)) })
		default:
			c.fail()
		}
	})
	if position != 2 {
		c.fail()
	}
	return tag, atoms
}

// setOf reads a set; one element may stand for itself.
func setOf(had []string, c *cursor, difference bool) []string {
	var elements []string
	if c.next() == '[' {
		_, elements = tagged(c)
	} else {
		elements = []string{atom(c)}
	}
	if !difference {
		return elements
	}
	var out []string
	for _, e := range had {
		if !slices.Contains(elements, e) {
			out = append(out, e)
		}
	}
	for _, e := range elements {
		if !slices.Contains(had, e) {
			out = append(out, e)
		}
	}
	return out
}

// mapOf reads ["map", [[KEY, VALUE]...]].
func (v *values) mapOf(had map[string]string, c *cursor, difference bool) map[string]string {
	var out map[string]string
	if difference {
		out = maps.Clone(had)
	}
	position := 0
	c.array(func() {
		switch position++; position {
		case 1:
			if string(c.bytes()) != "map" {
				c.fail()
			}
		case 2:
			c.array(func() { out = v.pair(out, had, c, difference) })
		default:
			c.fail()
		}
	})
	if position != 2 {
		c.fail()
	}
	return out
}

func (v *values) pair(out, had map[string]string, c *cursor, difference bool) map[string]string {
	var key, value string
	position := 0
	c.array(func() {
		switch position++; position {
		case 1:
			key = v.name(c.bytes())
		case 2:
			value = atom(c)
		default:
			c.fail()
		}
	})
	if position != 2 {
		c.fail()
	}
	if c.err != nil {
		return out
	}
	if old, there := had[key]; difference && there && old == value {
		delete(out, key)
		return out
	}
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}
