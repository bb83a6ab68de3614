package nb_test

import (
	"reflect"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// TestMembersKnowsEveryMemberColumn: a column that Members does not know would be written again for ever.
func TestMembersKnowsEveryMemberColumn(t *testing.T) {
	for _, table := range nb.Tables() {
		for _, column := range nb.MemberColumns(table.Table) {
			row := table.New()
			v, found := reflect.ValueOf(row).Elem(), false
			for i := range v.NumField() {
				if v.Type().Field(i).Tag.Get("ovsdb") != column {
					continue
				}
				found = true
				if (nb.Set{Row: nb.RefOf(row), Column: column}).IsMap() {
					v.Field(i).Set(reflect.ValueOf(map[string]string{"key": "value"}))
				} else {
					v.Field(i).Set(reflect.ValueOf([]string{"element"}))
				}
			}
			if got := nb.Members(row, column); !found || len(got) != 1 {
				t.Errorf("%s.%s: found in the row: %t; elements %q", table.Table, column, found, got)
			}
		}
	}
}

// TestARefNamesItsDatabase: rows of two databases are told apart by their tables, and a Ref is no larger for that.
func TestARefNamesItsDatabase(t *testing.T) {
	names := map[string]bool{}
	for _, table := range append(nb.Tables(), nb.TableSpec{Table: nb.TableGlobal}) {
		name := table.Table.Database() + " " + table.Table.String()
		if table.Table.Database() == "" || table.Table.String() == "" || names[name] {
			t.Errorf("table %d is %q, which says nothing or is another's", table.Table, name)
		}
		names[name] = true
	}
	if got, want := reflect.TypeFor[nb.Ref]().Size(), 2*reflect.TypeFor[string]().Size(); got >= want {
		t.Errorf("a Ref has %d bytes; with a table's name it would have %d", got, want)
	}
}
