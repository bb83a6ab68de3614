package nb

import "slices"

// tableSchema is what OVN's schema says of a table beside its columns' types.
type tableSchema struct {
	database, name string
	root           bool
	// members are the member columns, and columns what they are, in the same order.
	members []string
	columns []memberColumn
}

// memberColumn says what a column's elements are.
type memberColumn struct {
	// target is the table that they refer to; none when they are values. A weak reference keeps no row alive.
	target Table
	weak   bool
	// pairs: the column is a map.
	pairs bool
}

func memberColumnOf(c Column) memberColumn {
	table := &schema[c.Table]
	for i, name := range table.members {
		if name == c.Name {
			return table.columns[i]
		}
	}
	return memberColumn{}
}

// String is the table's name in its database; empty for none.
func (t Table) String() string { return schema[t].name }

// Database is the name of the table's database: so far there is one.
func (t Table) Database() string { return schema[t].database }

// TableSpec is what the engine must know of a table beside its columns.
type TableSpec struct {
	Table Table
	// New returns an empty row.
	New func() Row
}

// Column is a column of a table.
type Column struct {
	Table Table
	Name  string
}

// TargetTable is the table that a member column's elements refer to; none for any other column, and for one whose elements are
// values.
func TargetTable(c Column) Table { return memberColumnOf(c).target }

// MemberColumns names the member columns of a table. The list must not be changed.
func MemberColumns(t Table) []string { return schema[t].members }

// IsMember reports whether a column is written element by element.
func IsMember(c Column) bool { return slices.Contains(MemberColumns(c.Table), c.Name) }

// IsWeak reports whether a column's references keep no row alive: their rows live by their places in other columns, and
// when a row goes it leaves the column by itself. (RFC 7047, refType.)
func IsWeak(c Column) bool { return memberColumnOf(c).weak }

// IsRoot reports whether rows of a table live by themselves. Rows of the others live as long as a member
// column refers to them.
func IsRoot(t Table) bool { return schema[t].root }

// Judges reports whether rows of a table decide what passes: ACLs, the port groups that they hang on, and the address sets that they name.
func Judges(t Table) bool { return t == TableACL || Groups(t) }

// Groups reports whether rows of a table say of whom ACLs speak.
func Groups(t Table) bool { return t == TablePortGroup || t == TableAddressSet }

// same compares two optional values.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// copied is an optional value of its own.
func copied[T any](v *T) *T {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}
