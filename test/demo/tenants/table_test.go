package tenants

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const page = "# A page\n\n" +
	"| pod to pod | a | b |\n|---|---|---|\n| a | self | face of a |\n| b | `-` | self |\n\ntext\n\n" +
	"| pod to Service | 10.8.0.10 |\n|---|---|\n| a | b sees face of a |\n"

func TestReadAndCompare(t *testing.T) {
	want, err := Read(page, ToPods)
	if err != nil {
		t.Fatal(err)
	}
	if want.Cells() != 4 || len(want.Rows) != 2 || want.Rows[1][1] != notReached {
		t.Errorf("read %+v", want)
	}
	got := Table{Columns: want.Columns, Rows: [][]string{{"a", "self", "face of a"}, {"b", "face of b", "self"}}}
	if said := got.Compare(want); !slices.Equal(said, []string{"b, a: face of b, want -"}) {
		t.Errorf("it differs in %q", said)
	}
	if again, err := Read(page, ToPods); err != nil || len(again.Compare(want)) > 0 {
		t.Errorf("the same differs, or cannot be read: %v", err)
	}
	got.Rows = got.Rows[:1]
	if said := got.Compare(want); len(said) != 1 {
		t.Errorf("a row less: %q", said)
	}
	got.Columns = []string{ToPods, "b", "a"}
	if said := got.Compare(want); len(said) != 1 {
		t.Errorf("other columns: %q", said)
	}
	var b strings.Builder
	if err := want.Print(&b); err != nil {
		t.Fatal(err)
	}
	if again, err := Read(b.String(), ToPods); err != nil || len(again.Compare(want)) > 0 {
		t.Errorf("what was printed is read as %+v, %v", again, err)
	}
	for _, bad := range []string{"", "| pod to pod | a |\n|---|---|\n", "| pod to pod | a |\n|---|---|\n| a |\n"} {
		if _, err := Read(bad, ToPods); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// The page of the example asks every pod about every other one.
func TestPageOfTheExample(t *testing.T) {
	text, err := os.ReadFile("../../../" + Page)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := Read(string(text), ToPods)
	if err != nil {
		t.Fatal(err)
	}
	services, err := Read(string(text), ToServices)
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Rows) != len(pods.Columns)-1 || len(services.Rows) != len(pods.Rows) {
		t.Errorf("%d pods ask, %d are asked for, %d ask for Services", len(pods.Rows), len(pods.Columns)-1, len(services.Rows))
	}
	for i, row := range pods.Rows {
		if row[0] != pods.Columns[i+1] || row[i+1] != "self" || services.Rows[i][0] != row[0] {
			t.Errorf("row %d is that of %s, and column %s", i, row[0], pods.Columns[i+1])
		}
	}
}
