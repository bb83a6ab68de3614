package nb

import "strings"

// Facts say what one owner wants of the database.
type Facts struct {
	Rows    []Row
	Members []Member
}

// Empty reports whether nothing is wanted.
func (f Facts) Empty() bool { return len(f.Rows)+len(f.Members) == 0 }

// Add puts those of other after those of f.
func (f *Facts) Add(other Facts) {
	f.Rows, f.Members = append(f.Rows, other.Rows...), append(f.Members, other.Members...)
}

// Set is a member column of one row.
type Set struct {
	Row    Ref
	Column string
}

// Target is the table that the set's elements refer to.
func (s Set) Target() Table { return TargetTable(Column{s.Row.Table, s.Column}) }

// Member says that Set holds Value: a row's UUID, an address, or a Pair.
type Member struct {
	Set
	Value string
}

// Ref points at the row that the member refers to. A value's points nowhere: at no row, and for two pairs with the same key at
// the same place.
func (m Member) Ref() Ref {
	if target := m.Target(); target != 0 {
		return Ref{target, m.Value}
	}
	key, _ := SplitPair(m.Value)
	return Ref{UUID: m.Row.UUID + pairSeparator + key}
}

// IsValue reports whether the set's elements are values, pairs of a map among them, and no rows.
func (s Set) IsValue() bool { return s.Target() == 0 }

// IsMap reports whether the set's elements are pairs of a map.
func (s Set) IsMap() bool { return memberColumnOf(Column{s.Row.Table, s.Column}).pairs }

// pairSeparator stands between the key and the value of a pair; no value that we write holds it.
const pairSeparator = "\x00"

// Pair is the element of a map column that has value at key. A pair with another value is another element.
func Pair(key, value string) string { return key + pairSeparator + value }

// pairsOf are the elements of a map column.
func pairsOf(column map[string]string) []string {
	out := make([]string, 0, len(column))
	for key, value := range column {
		out = append(out, Pair(key, value))
	}
	return out
}

// SplitPair takes a Pair apart.
func SplitPair(pair string) (key, value string) {
	key, value, _ = strings.Cut(pair, pairSeparator)
	return key, value
}
