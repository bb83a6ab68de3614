package drift

import (
	"slices"

	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// CompareRows finds what the controller would write, by the code by which it would. Somebody else's rows are
// not looked at, as they are not by the controller.
func (w Desired) CompareRows(have snapshot.Northbound) []Difference {
	out := compareGlobal(have)
	w.Graph.TouchAll()
	for {
		work, ok := w.Graph.Next()
		if !ok {
			break
		}
		if !w.pending[work.Owner] {
			out = append(out, w.compareOwner(work, have)...)
		}
	}
	for _, table := range nb.Tables() {
		for _, row := range have.Rows(table.Table) {
			if w.orphan(row) {
				owner, _ := nb.ParseOwner(row.Owned()[nb.KeyOwner])
				out = append(out, Difference{
					Owner: owner, Place: PlaceNorthbound, Kind: RowSurplus,
					Object: Describe(row), Have: "the row",
				})
				continue
			}
			out = append(out, w.strays(row, have)...)
		}
	}
	return out
}

// everybody is the owner of what no object alone asks for.
func everybody() nb.Owner { return nb.Owner{Name: "OVN"} }

// compareGlobal finds what the controller wants of OVN as a whole. The controller of a database without the row has not begun.
func compareGlobal(have snapshot.Northbound) []Difference {
	for _, row := range have.Rows(nb.TableGlobal) {
		if global, ok := row.(*nb.Global); ok && global.Options[nb.OptionInvalid] != nb.InvalidUnmatched {
			return []Difference{{
				Owner: everybody(), Place: PlaceNorthbound, Kind: ColumnDiffers, Object: Describe(row), Column: "options",
				Want: nb.OptionInvalid + "=" + nb.InvalidUnmatched, Have: nb.OptionInvalid + "=" + global.Options[nb.OptionInvalid],
			}}
		}
	}
	return nil
}

// compareOwner finds what one owner wants and has not.
func (w Desired) compareOwner(work graph.Work, have snapshot.Northbound) []Difference {
	unit := plan.Compare(work, w.Graph, have, plan.Coming{})
	var out []Difference
	for ref := range work.Refs {
		row, wanted := w.Graph.Row(ref)
		if owner, _ := w.Graph.Owner(ref); wanted && owner == work.Owner && !have.Has(ref) {
			out = append(out, Difference{
				Owner: owner, Place: PlaceNorthbound, Kind: RowMissing, Object: Describe(row), Want: "the row",
			})
		}
	}
	for _, u := range unit.Updates {
		row, there := have.Row(nb.RefOf(u.Row))
		if owner, _ := w.Graph.Owner(nb.RefOf(u.Row)); !there || owner != work.Owner {
			continue
		}
		for _, column := range u.Columns {
			d := Difference{Owner: work.Owner, Place: PlaceNorthbound, Kind: ColumnDiffers, Object: Describe(u.Row), Column: column}
			d.Want, d.Have = columnTexts(u.Row, row, column)
			out = append(out, d)
		}
	}
	for _, m := range unit.Joins {
		in, inThere := w.Graph.Row(m.Row)
		if m.IsValue() {
			out = append(out, w.valueMissing(work.Owner, m, have)...)
			continue
		}
		row, ok := w.Graph.Row(m.Ref())
		// A row that is missing is named already: its place in a set goes without saying.
		if inThere && ok && have.Has(m.Row) && have.Has(m.Ref()) {
			out = append(out, Difference{
				Owner: work.Owner, Place: PlaceNorthbound, Kind: ElementMissing, Object: Describe(in), Column: m.Column,
				Want: Describe(row),
			})
		}
	}
	return out
}

// valueMissing says that a column lacks a value; a map has a pair of the same key, if anything.
func (w Desired) valueMissing(owner nb.Owner, m nb.Member, have snapshot.Northbound) []Difference {
	in, wanted := w.Graph.Row(m.Row)
	row, there := have.Row(m.Row)
	if !wanted || !there {
		return nil
	}
	d := Difference{
		Owner: owner, Place: PlaceNorthbound, Kind: ElementMissing, Object: Describe(in), Column: m.Column,
		Want: elementText(m), Have: nothing,
	}
	key, _ := nb.SplitPair(m.Value)
	for _, pair := range nb.Members(row, m.Column) {
		if k, _ := nb.SplitPair(pair); k == key {
			d.Have = elementText(nb.Member{Set: m.Set, Value: pair})
		}
	}
	return []Difference{d}
}

// elementText is a value as a person reads it.
func elementText(m nb.Member) string {
	if !m.IsMap() {
		return m.Value
	}
	key, value := nb.SplitPair(m.Value)
	return key + " = " + value
}

// surplus says that a column of ours has a value that nobody wants; a pair whose key is wanted is named as missing already.
func (w Desired) surplus(row nb.Row, m nb.Member) []Difference {
	owner, ours := w.Graph.Owner(m.Row)
	key, _ := nb.SplitPair(m.Value)
	if !ours || w.pending[owner] || w.Graph.Wants(m) {
		return nil
	}
	for _, pair := range w.Graph.Elements(m.Set) {
		if k, _ := nb.SplitPair(pair); k == key {
			return nil
		}
	}
	return []Difference{{
		Owner: owner, Place: PlaceNorthbound, Kind: ElementSurplus, Object: Describe(row), Column: m.Column,
		Have: elementText(m),
	}}
}

// strays are rows of ours in the sets of row that do not belong there.
func (w Desired) strays(row nb.Row, have snapshot.Northbound) []Difference {
	var out []Difference
	for _, column := range nb.MemberColumns(row.Table()) {
		set := nb.Set{Row: nb.RefOf(row), Column: column}
		for _, uuid := range nb.Members(row, column) {
			m := nb.Member{Set: set, Value: uuid}
			if m.IsValue() {
				out = append(out, w.surplus(row, m)...)
				continue
			}
			owner, wanted := w.Graph.Owner(m.Ref())
			if !wanted || w.Graph.Wants(m) || w.pending[owner] {
				continue
			}
			if element, there := have.Row(m.Ref()); there {
				out = append(out, Difference{
					Owner: owner, Place: PlaceNorthbound, Kind: ElementSurplus, Object: Describe(row), Column: column,
					Have: Describe(element),
				})
			}
		}
	}
	return out
}

// orphan reports whether a row has our mark and nobody wants it.
func (w Desired) orphan(row nb.Row) bool {
	_, wanted := w.Graph.Row(nb.RefOf(row))
	return !wanted && plan.Ours(row)
}

// Differences are those of the rows, found once.
func (w *Desired) Differences(have snapshot.Northbound) []Difference {
	if !w.compared {
		w.found, w.compared = w.CompareRows(have), true
		slices.SortFunc(w.found, Compare)
	}
	return w.found
}
