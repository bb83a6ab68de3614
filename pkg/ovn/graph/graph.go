// Package graph keeps what every owner wants of the database, and which owners have to be looked at again.
//
//	compile --Set, Delete--> owners -> rows, members          plan asks: Row, Wants, Elements
//	monitor --Touch--------> work: owner -> what to compare   plan takes: Next
//
// A row has one owner; should two claim it, the one whose name sorts first has it, whatever the order in which
// they came. An element of a member column is there while at least one owner wants it.
//
// What must stay true: the content depends only on the last facts of each owner, never on the order of calls;
// whatever may differ from the database is in the work until somebody has taken it. One goroutine uses a
// Graph; it does no I/O and knows nothing of what the database holds.
package graph

import (
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Graph is what all owners want. Make one with New.
type Graph struct {
	owners map[nb.Owner]nb.Facts
	rows   map[nb.Ref]claims
	sets   map[nb.Set]map[string]int
	// users count, by namespace, the policies that name the rows of an owner: of a port group.
	users map[nb.Owner]map[string]int
	work  work
}

// claims are the owners that want a row, sorted by name: the first has it.
type claims []claim

type claim struct {
	owner nb.Owner
	row   nb.Row
}

// New makes an empty graph.
func New() *Graph {
	return &Graph{
		owners: map[nb.Owner]nb.Facts{},
		rows:   map[nb.Ref]claims{},
		sets:   map[nb.Set]map[string]int{},
		users:  map[nb.Owner]map[string]int{},
		work:   newWork(),
	}
}

// Set replaces what owner wants. The facts belong to the graph from then on. It reports whether that makes work: facts that
// equal the present ones make none.
func (g *Graph) Set(owner nb.Owner, facts nb.Facts) bool {
	old, had := g.owners[owner]
	if had && reflect.DeepEqual(old, facts) {
		return false
	}
	g.drop(owner, old)
	g.owners[owner] = facts
	for _, row := range facts.Rows {
		ref := nb.RefOf(row)
		c := g.rows[ref]
		at, _ := slices.BinarySearchFunc(c, owner, compareOwner)
		g.rows[ref] = slices.Insert(c, at, claim{owner, row})
		g.touch(owner, ref)
	}
	for _, m := range facts.Members {
		elements := g.sets[m.Set]
		if elements == nil {
			elements = map[string]int{}
			g.sets[m.Set] = elements
		}
		elements[m.Value]++
		g.touchMember(owner, m)
	}
	g.work.rank(owner, holdsRoot(facts))
	return !old.Empty() || !facts.Empty()
}

// Delete forgets owner: what it alone wanted has to go. It reports whether that makes work.
func (g *Graph) Delete(owner nb.Owner) bool {
	old, had := g.owners[owner]
	if !had {
		return false
	}
	g.drop(owner, old)
	delete(g.owners, owner)
	return !old.Empty()
}

func (g *Graph) drop(owner nb.Owner, facts nb.Facts) {
	for _, row := range facts.Rows {
		ref := nb.RefOf(row)
		c := g.rows[ref]
		if at, found := slices.BinarySearchFunc(c, owner, compareOwner); found {
			c = slices.Delete(c, at, at+1)
		}
		if len(c) == 0 {
			delete(g.rows, ref)
			g.touch(owner, ref)
			continue
		}
		g.rows[ref] = c
		g.touch(c[0].owner, ref)
	}
	for _, m := range facts.Members {
		if elements := g.sets[m.Set]; elements[m.Value] > 1 {
			elements[m.Value]--
		} else if delete(elements, m.Value); len(elements) == 0 {
			delete(g.sets, m.Set)
		}
		g.touchMember(owner, m)
	}
}

// Touch says that the row at ref may have changed in the database. It reports whether anybody wants the row.
func (g *Graph) Touch(ref nb.Ref) bool {
	c := g.rows[ref]
	if len(c) == 0 {
		return false
	}
	g.touch(c[0].owner, ref)
	return true
}

// TouchMember says that an element that is wanted may have gone from the database, or one that is not may have
// come into it. The element's row tells on whose account, for a value its holder's; without one nothing is done.
func (g *Graph) TouchMember(m nb.Member) {
	ref := m.Ref()
	if m.IsValue() {
		ref = m.Row
	}
	if c := g.rows[ref]; len(c) > 0 {
		g.touchMember(c[0].owner, m)
	}
}

// TouchAll says that anything may have changed: every owner is looked at again.
func (g *Graph) TouchAll() {
	for owner := range g.owners {
		g.TouchOwner(owner)
	}
}

// TouchOwner says that all of one owner has to be looked at again.
func (g *Graph) TouchOwner(owner nb.Owner) {
	facts, ok := g.owners[owner]
	if !ok {
		return
	}
	for _, row := range facts.Rows {
		g.touch(owner, nb.RefOf(row))
	}
	for _, m := range facts.Members {
		g.touchMember(owner, m)
	}
	g.work.rank(owner, holdsRoot(facts))
}

// Row is the row that is wanted at ref.
func (g *Graph) Row(ref nb.Ref) (nb.Row, bool) {
	c := g.rows[ref]
	if len(c) == 0 {
		return nil, false
	}
	return c[0].row, true
}

// Owner is who has the row at ref.
func (g *Graph) Owner(ref nb.Ref) (nb.Owner, bool) {
	c := g.rows[ref]
	if len(c) == 0 {
		return nb.Owner{}, false
	}
	return c[0].owner, true
}

// Facts are what owner wants; the caller must not change them.
func (g *Graph) Facts(owner nb.Owner) (nb.Facts, bool) {
	f, ok := g.owners[owner]
	return f, ok
}

// Wants reports whether anybody wants m.
func (g *Graph) Wants(m nb.Member) bool { return g.sets[m.Set][m.Value] > 0 }

// Elements are the wanted elements of a member column, in no order.
func (g *Graph) Elements(s nb.Set) []string {
	out := make([]string, 0, len(g.sets[s]))
	for v := range g.sets[s] {
		out = append(out, v)
	}
	return out
}

// Size is the number of wanted elements of a member column.
func (g *Graph) Size(s nb.Set) int { return len(g.sets[s]) }

// Owners is the number of owners.
func (g *Graph) Owners() int { return len(g.owners) }

// Refs are all rows that are wanted, in no order.
func (g *Graph) Refs() []nb.Ref {
	out := make([]nb.Ref, 0, len(g.rows))
	for ref := range g.rows {
		out = append(out, ref)
	}
	return out
}

func compareOwner(c claim, owner nb.Owner) int { return c.owner.Compare(owner) }

func holdsRoot(f nb.Facts) bool {
	return slices.ContainsFunc(f.Rows, func(r nb.Row) bool { return nb.IsRoot(r.Table()) })
}
