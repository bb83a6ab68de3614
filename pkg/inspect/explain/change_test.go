package explain

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	ovn "github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/inspected"
)

// numbers are the rows of both databases that number changes, by their tables.
type numbers map[string][]ovsdb.Row

// Select implements Selector.
func (n numbers) Select(_ context.Context, selects ...ovsdb.Operation) (out [][]ovsdb.Row, _ error) {
	for _, s := range selects {
		out = append(out, n[s.Table])
	}
	return out, nil
}

// followed are databases of which ovn-northd has followed so far, and n1 and n2 each so far.
func followed(north, south, n1, n2 int) numbers {
	return numbers{
		"NB_Global": {{"nb_cfg": float64(north)}}, "SB_Global": {{"nb_cfg": float64(south)}},
		snapshot.TableChassis: {{"name": "c1", "hostname": "n1"}, {"name": "c2", "hostname": "n2"}},
		"Chassis_Private":     {{"name": "c1", "nb_cfg": float64(n1)}, {"name": "c2", "nb_cfg": float64(n2)}},
	}
}

// TestAnAnswerThatRestsOnChangesSaysSo: each thing that is held up is said; the control is that all of it has been applied, and
// what changes for others.
func TestAnAnswerThatRestsOnChangesSaysSo(t *testing.T) {
	t.Parallel()
	const rows, northd, n2, objects = "rows of this way have changed", "ovn-northd has not yet",
		"node n2 has not yet applied", "not yet what the objects ask for"
	none := func(*inspected.World) ovn.Changes { return ovn.Changes{} }
	row := func(name string) func(w *inspected.World) ovn.Changes {
		return func(w *inspected.World) ovn.Changes {
			return ovn.Changes{Rows: map[nb.Ref]struct{}{nb.RefOf(inspected.Find[*nb.LogicalSwitchPort](w, name)): {}}}
		}
	}
	for _, c := range []struct {
		what    string
		numbers numbers
		changed func(*inspected.World) ovn.Changes
		change  func(*inspected.World)
		want    []string
	}{
		{"all is applied", followed(7, 7, 7, 7), none, nil, nil},
		{"numbers of nodes are higher", followed(7, 7, 9, 8), none, nil, nil},
		{"ovn-northd is behind", followed(8, 7, 7, 7), none, nil, []string{northd}},
		{"a node on the way is behind", followed(7, 7, 7, 6), none, nil, []string{n2}},
		{"its port has changed", followed(7, 7, 7, 7), row("red/db"), nil, []string{rows}},
		{"somebody else's port has changed", followed(7, 7, 7, 7), row("green/client"), nil, nil},
		{"another pod of the Network came", followed(7, 7, 7, 7), func(w *inspected.World) ovn.Changes {
			port := inspected.Find[*nb.LogicalSwitchPort](w, "red/locked")
			set := nb.Set{Row: nb.RefOf(inspected.Find[*nb.LogicalSwitch](w, "red/front")), Column: "ports"}
			return ovn.Changes{Members: map[nb.Member]struct{}{{Set: set, Value: port.UUID}: {}}}
		}, nil, nil},
		{"a port of the Network went", followed(7, 7, 7, 7), func(w *inspected.World) ovn.Changes {
			set := nb.Set{Row: nb.RefOf(inspected.Find[*nb.LogicalSwitch](w, "red/front")), Column: "ports"}
			return ovn.Changes{Members: map[nb.Member]struct{}{{Set: set, Value: "gone"}: {}}}
		}, nil, []string{rows}},
		{"the controller has not written", followed(7, 7, 7, 7), none, func(w *inspected.World) {
			w.Policy("late", inspected.AppIs("red", "db"), model.PolicyIngress)
		}, []string{objects}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			w := inspected.TownWorld(t)
			if c.change != nil {
				c.change(w)
			}
			q, err := questionOf("red/web red/db tcp 80")
			if err != nil {
				t.Fatal(err)
			}
			in := explainable(w)
			in.lagging = readLagging(t.Context(), c.numbers, c.numbers)
			in.lately = func() ovn.Changes { return c.changed(w) }
			e, err := Explain(in, q)
			if err != nil {
				t.Fatal(err)
			}
			if len(e.Changing) != len(c.want) || len(c.want) > 0 && !strings.Contains(e.Unsettled(), c.want[0]) ||
				(e.Unsettled() == "") != (len(c.want) == 0) {
				t.Errorf("it says %q, want %q", e.Unsettled(), c.want)
			}
			if !e.Reached {
				t.Errorf("it says %s", e.Verdict())
			}
			if diff := cmp.Diff(e.Changing, FromAPI(api.ExplanationSpec{}, statusOf(e)).Changing); diff != "" {
				t.Errorf("by the API (-want +got)\n%s", diff)
			}
		})
	}
}
