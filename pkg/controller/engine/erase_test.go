package engine

import (
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// TestHoldersFirst: a table comes after all whose rows refer to its own, since the database refuses to delete a row that another refers to.
func TestHoldersFirst(t *testing.T) {
	order := holdersFirst()
	if len(order) != len(nb.Tables()) {
		t.Fatalf("%d of %d tables: %v", len(order), len(nb.Tables()), order)
	}
	for at, table := range order {
		for _, name := range nb.MemberColumns(table) {
			column := nb.Column{Table: table, Name: name}
			if target := nb.TargetTable(column); target != 0 && !nb.IsWeak(column) && slices.Index(order, target) < at {
				t.Errorf("%s comes before %s, which refers to it by %s", target, table, name)
			}
		}
	}
}
