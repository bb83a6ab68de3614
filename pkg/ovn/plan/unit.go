// Package plan compares what is wanted with what the database holds and turns the difference into OVSDB
// operations (RFC 7047 section 5.2).
//
//	graph.Work + Desired + Actual --Compare--> Unit --Operations--> []ovsdb.Operation of one transaction
//
// A Unit is the difference on one owner's account. It can be committed without any other, so a transaction
// that fails can be halved until the owner whose rows the server refuses is alone.
//
// What must stay true: no difference, no operation; a row that is not ours is never updated or deleted; an
// element joins a set only when the row that holds the set, and the row that the element refers to, exist or are
// inserted in the same transaction.
package plan

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Desired is what is wanted: a graph.Graph.
type Desired interface {
	Row(nb.Ref) (nb.Row, bool)
	Wants(nb.Member) bool
	Facts(nb.Owner) (nb.Facts, bool)
	// Elements are the wanted elements of a member column.
	Elements(nb.Set) []string
	// ForOthers reports whether a row is a port group that is none of an owner's business: see graph.Graph.
	ForOthers(nb.Owner, nb.Ref) bool
}

// Actual is what the database holds, as the monitor last said.
type Actual interface {
	Row(nb.Ref) (nb.Row, bool)
	// Has reports whether the row is there; cheaper than Row.
	Has(nb.Ref) bool
	// HasMember reports whether the element is in the set.
	HasMember(nb.Member) bool
}

// Unit is the difference on one owner's account.
type Unit struct {
	Owner   nb.Owner
	Inserts []nb.Row
	Updates []Update
	Joins   []nb.Member
	Leaves  []nb.Member
	Deletes []nb.Ref
	// Blocked: rows that do not exist, and hold a set that an element should join, or are what it refers to.
	Blocked []nb.Ref
	// Work is what the unit was made from.
	Work graph.Work
	// Part: more of the owner's work is to follow, and is pending.
	Part bool
}

// Update sets columns of an existing row to the values that Row has.
type Update struct {
	Row     nb.Row
	Columns []string
}

// Empty reports whether there is nothing to write.
func (u Unit) Empty() bool { return u.Size() == 0 }

// Size is the number of operations that the unit needs at most.
func (u Unit) Size() int {
	return len(u.Inserts) + len(u.Updates) + len(u.Joins) + len(u.Leaves) + len(u.Deletes)
}

// Coming says what earlier units of the same transaction do to rows.
type Coming map[nb.Ref]fate

type fate uint8

// The fates of rows: nothing is known, it is inserted, it is the row of a group and deleted, or it is not that of a policies' group.
const (
	_ fate = iota
	comes
	goes
	stays
)

// Compare finds the difference between desired and actual in what work names; it adds the rows that it inserts
// to coming.
func Compare(work graph.Work, desired Desired, actual Actual, coming Coming) Unit {
	u := Unit{Owner: work.Owner, Work: work}
	refs, members := widen(work, desired, actual)
	inserted := map[nb.Ref]bool{}
	for _, ref := range sortedRefs(refs) {
		want, wanted := desired.Row(ref)
		have, exists := actual.Row(ref)
		switch {
		case wanted && !exists && coming[ref] == comes:
			// An earlier unit of this transaction makes it: the server takes a UUID once.
		case wanted && !exists:
			u.Inserts = append(u.Inserts, want)
			inserted[ref] = true
			coming[ref] = comes
		case wanted:
			if columns := differing(want, have); len(columns) > 0 {
				u.Updates = append(u.Updates, Update{want, columns})
			}
		case exists && Ours(have) && coming[ref] != goes:
			u.remove(ref, coming)
		}
	}
	homeless := map[nb.Ref]bool{}
	for _, m := range sortedMembers(withElements(members, u.Inserts, desired, actual, coming)) {
		before := len(u.Blocked)
		u.compareMember(m, desired, actual, inserted, coming)
		if len(u.Blocked) > before && inserted[m.Ref()] && !nb.IsRoot(m.Ref().Table) {
			homeless[m.Ref()] = true
		}
	}
	u.dropBlocked(homeless)
	for ref := range homeless {
		delete(coming, ref)
	}
	return u
}

// widen gives what has to be compared: what work names, and all of the owner when a row of it is missing. A row
// that comes back needs its places in sets again, and a set that comes back its elements; the server may have
// collected other rows along with it whose going we have not heard of yet.
func widen(work graph.Work, desired Desired, actual Actual) (map[nb.Ref]struct{}, map[nb.Member]struct{}) {
	missing := func(ref nb.Ref) bool {
		_, wanted := desired.Row(ref)
		return wanted && !actual.Has(ref)
	}
	narrow := true
	for ref := range work.Refs {
		narrow = narrow && !missing(ref)
	}
	for m := range work.Members {
		narrow = narrow && !missing(m.Ref())
	}
	facts, ok := desired.Facts(work.Owner)
	if narrow || !ok {
		return work.Refs, work.Members
	}
	refs, members := maps.Clone(work.Refs), maps.Clone(work.Members)
	if refs == nil {
		refs = map[nb.Ref]struct{}{}
	}
	if members == nil {
		members = map[nb.Member]struct{}{}
	}
	for _, r := range facts.Rows {
		refs[nb.RefOf(r)] = struct{}{}
	}
	for _, m := range facts.Members {
		members[m] = struct{}{}
	}
	return refs, members
}

// withElements adds the elements that come with their set's row: whoever owns one is not told that the row had gone. Those
// are values, and weak references to rows that are there; rows that are referred to strongly went with the row. So
// a port group comes with all its ports at once.
func withElements(
	members map[nb.Member]struct{}, inserts []nb.Row, desired Desired, actual Actual, coming Coming,
) map[nb.Member]struct{} {
	own := false
	for _, row := range inserts {
		for _, column := range nb.MemberColumns(row.Table()) {
			set := nb.Set{Row: nb.RefOf(row), Column: column}
			if !set.IsValue() && !nb.IsWeak(nb.Column{Table: row.Table(), Name: column}) {
				continue
			}
			for _, value := range desired.Elements(set) {
				m := nb.Member{Set: set, Value: value}
				if !set.IsValue() && !actual.Has(m.Ref()) && coming[m.Ref()] != comes {
					continue
				}
				if !own {
					members, own = maps.Clone(members), true
				}
				if members == nil {
					members = map[nb.Member]struct{}{}
				}
				members[m] = struct{}{}
			}
		}
	}
	return members
}

func (u *Unit) compareMember(m nb.Member, desired Desired, actual Actual, inserted map[nb.Ref]bool, coming Coming) {
	_, kept := desired.Row(m.Row)
	if !desired.Wants(m) {
		if !kept && u.removeGroup(m.Row, actual, coming) {
			return
		}
		if actual.Has(m.Row) && (m.IsValue() || actual.Has(m.Ref())) {
			u.Leaves = append(u.Leaves, m)
		}
		return
	}
	there := kept && (actual.Has(m.Row) || coming[m.Row] == comes)
	switch {
	case kept && !there && desired.ForOthers(u.Owner, m.Row):
		// It comes with the row.
	case !there:
		u.Blocked = append(u.Blocked, m.Row)
	case strong(m) && !inserted[m.Ref()] && !actual.Has(m.Ref()) && coming[m.Ref()] != comes:
		// Another owner's, who may wait for a row of this one in turn: each comes without the other, and then they join.
		u.Blocked = append(u.Blocked, m.Ref())
	case inserted[m.Ref()] || inserted[m.Row] || !actual.HasMember(m):
		u.Joins = append(u.Joins, m)
	}
}

// remove takes a row out.
func (u *Unit) remove(ref nb.Ref, coming Coming) {
	u.Deletes = append(u.Deletes, ref)
	if nb.Groups(ref.Table) {
		coming[ref] = goes
	}
}

// removeGroup takes the row of a policies' group out that nobody wants, in place of its elements one by one: these may be thousands of
// pods', whose owners have nothing to do with whoever made the group. No ACL names such a row any more. It reports whether the row goes.
func (u *Unit) removeGroup(ref nb.Ref, actual Actual, coming Coming) bool {
	if !nb.Groups(ref.Table) || coming[ref] != 0 {
		return coming[ref] == goes
	}
	row, there := actual.Row(ref)
	if !there {
		return false
	}
	if !PoliciesGroup(row) {
		coming[ref] = stays
		return false
	}
	u.remove(ref, coming)
	return true
}

// PoliciesGroup reports whether a row is that of a group that policies name. Nobody wants it any more when no ACL in the database does.
func PoliciesGroup(row nb.Row) bool {
	owner, ours := nb.ParseOwner(row.Owned()[nb.KeyOwner])
	return ours && owner.Kind == nb.KindPortGroup && nb.Groups(row.Table())
}

// strong reports whether the database refuses the element without the row that it refers to.
func strong(m nb.Member) bool {
	return !m.IsValue() && !nb.IsWeak(nb.Column{Table: m.Row.Table, Name: m.Column})
}

// dropBlocked takes out inserts of rows that lack one of their places. They would not live; and a port comes with all its
// port groups or not at all, since without the one that isolates it, it would be open.
func (u *Unit) dropBlocked(homeless map[nb.Ref]bool) {
	if len(homeless) == 0 {
		return
	}
	u.Inserts = slices.DeleteFunc(u.Inserts, func(r nb.Row) bool { return homeless[nb.RefOf(r)] })
	u.Joins = slices.DeleteFunc(u.Joins, func(m nb.Member) bool { return homeless[m.Ref()] })
}

// Ours reports whether a row carries an owner of ours.
func Ours(r nb.Row) bool { return r.Owned()[nb.KeyOwner] != "" }

// Differs reports whether two states of a row differ in a column that is not a member column.
func Differs(a, b nb.Row) bool { return len(differing(a, b)) > 0 }

// differing names the columns of have that are not as want has them. Sets are compared without regard to
// order, and an empty one equals none. Member columns are not looked at.
func differing(want, have nb.Row) []string {
	w, h := reflect.ValueOf(want).Elem(), reflect.ValueOf(have).Elem()
	if w.Type() != h.Type() {
		return nil
	}
	var columns []string
	for _, c := range columnsOf(w.Type()) {
		if !equal(w.Field(c.field).Interface(), h.Field(c.field).Interface()) {
			columns = append(columns, c.name)
		}
	}
	return columns
}

func equal(a, b any) bool {
	switch a := a.(type) {
	case []string:
		b, _ := b.([]string)
		return sameSet(a, b)
	case map[string]string:
		b, _ := b.(map[string]string)
		return maps.Equal(a, b)
	}
	return reflect.DeepEqual(a, b)
}

func sameSet(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	if slices.Equal(a, b) {
		return true
	}
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

type column struct {
	name  string
	field int
}

// columnsOf lists the columns of a row type that are compared and written as a whole.
func columnsOf(t reflect.Type) []column {
	table := reflect.New(t).Interface().(nb.Row).Table()
	var out []column
	for i := range t.NumField() {
		name := t.Field(i).Tag.Get("ovsdb")
		if name == "" || name == "_uuid" || nb.IsMember(nb.Column{Table: table, Name: name}) {
			continue
		}
		out = append(out, column{name, i})
	}
	return out
}

func sortedRefs(refs map[nb.Ref]struct{}) []nb.Ref {
	return slices.SortedFunc(maps.Keys(refs), func(a, b nb.Ref) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.UUID, b.UUID))
	})
}

func sortedMembers(members map[nb.Member]struct{}) []nb.Member {
	return slices.SortedFunc(maps.Keys(members), func(a, b nb.Member) int {
		return cmp.Or(cmp.Compare(a.Row.UUID, b.Row.UUID), cmp.Compare(a.Value, b.Value))
	})
}
