package plan_test

import (
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// Two owners whose rows refer to each other's are committed one at a time: each without what is not there yet, which joins once it is.
func TestOwnersThatReferToEachOther(t *testing.T) {
	t.Parallel()
	g, m := graph.New(), newMemory()
	switches, groups := map[string]nb.Ref{}, map[string]nb.Ref{}
	facts := map[string]nb.Facts{}
	for _, name := range []string{"a", "b"} {
		sw := &nb.LogicalSwitch{
			UUID: nb.UUID(nb.TableLogicalSwitch, name), Name: name, ExternalIDs: map[string]string{nb.KeyOwner: "Network/" + name},
		}
		group := &nb.LoadBalancerGroup{UUID: nb.UUID(nb.TableLoadBalancerGroup, name), Name: nb.GroupName(name, "uid")}
		switches[name], groups[name] = nb.RefOf(sw), nb.RefOf(group)
		facts[name] = nb.Facts{Rows: []nb.Row{sw, group}}
	}
	for name, other := range map[string]string{"a": "b", "b": "a"} {
		f := facts[name]
		for _, holds := range []string{name, other} {
			f.Members = append(f.Members, switches[name].Holds(nb.ColumnLoadBalancerGroups, groups[holds].UUID))
		}
		g.Set(nb.NetworkOwner(name), f)
	}
	var blocked, joins []int
	for range 3 {
		work, ok := g.Next()
		if !ok {
			break
		}
		u := plan.Compare(work, g, m, plan.Coming{})
		blocked, joins = append(blocked, len(u.Blocked)), append(joins, len(u.Joins))
		for _, r := range u.Inserts {
			m.rows[nb.RefOf(r)] = r
		}
		for _, x := range u.Joins {
			if !m.Has(x.Row) || !m.Has(x.Ref()) {
				t.Fatalf("%s joins %v to %v, and one of them is not there", u.Owner, x.Ref(), x.Row)
			}
			if m.sets[x.Set] == nil {
				m.sets[x.Set] = map[string]bool{}
			}
			m.sets[x.Set][x.Value] = true
		}
		if len(u.Blocked) > 0 {
			g.TouchOwner(u.Owner)
		}
	}
	for name, want := range map[string][]int{"blocked": {1, 0, 0}, "joins": {1, 2, 1}} {
		got := map[string][]int{"blocked": blocked, "joins": joins}[name]
		if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
