package graph_test

import (
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Work judges from the moment an ACL, where one hangs, or a port group is touched until it is taken, and again when it is given
// back; a port's place in a group does not judge, but belongs to what does.
func TestWorkThatJudgesIsCounted(t *testing.T) {
	g := graph.New()
	group := nb.Ref{Table: nb.TablePortGroup, UUID: "group"}
	want := func(judging int) {
		t.Helper()
		if got := g.Judging(); got != judging {
			t.Fatalf("%d owners judge, want %d", got, judging)
		}
	}
	port := &nb.LogicalSwitchPort{UUID: "port"}
	g.Set(nb.NetworkOwner("pod"), nb.Facts{
		Rows: []nb.Row{port}, Members: []nb.Member{{Set: nb.Set{Row: group, Column: nb.ColumnPorts}, Value: "port"}},
	})
	g.Set(nb.NetworkOwner("switch"), nb.Facts{Rows: []nb.Row{&nb.LogicalSwitch{UUID: "switch"}}})
	want(0)
	g.Set(nb.NetworkOwner("policy"), nb.Facts{Rows: []nb.Row{&nb.ACL{UUID: "one"}, &nb.ACL{UUID: "two"}}})
	want(1)
	g.Set(nb.NetworkOwner("group"), nb.Facts{Rows: []nb.Row{&nb.PortGroup{UUID: "group"}}})
	want(2)
	hangs := nb.Set{Row: nb.Ref{Table: nb.TableLogicalSwitch, UUID: "switch"}, Column: nb.ColumnACLs}
	g.Set(nb.NetworkOwner("user"), nb.Facts{Members: []nb.Member{{Set: hangs, Value: "one"}}})
	want(3)
	grouped := map[nb.Owner]bool{}
	var policy graph.Work
	for {
		w, ok := g.Next()
		if !ok {
			break
		}
		if grouped[w.Owner] = w.Grouped(); w.Owner == nb.NetworkOwner("policy") {
			policy = w
		}
	}
	want(0)
	for owner, is := range map[string]bool{"pod": true, "policy": true, "group": true, "user": true, "switch": false} {
		if grouped[nb.NetworkOwner(owner)] != is {
			t.Errorf("%s belongs to what decides what passes: %v, want %v", owner, grouped[nb.NetworkOwner(owner)], is)
		}
	}
	g.Return(policy)
	want(1)
	g.Delete(nb.NetworkOwner("policy"))
	want(1)
}

// Work that was put off keeps its place before what came later. What brings containers still comes first, and the rest can be had alone.
func TestPutOffKeepsThePlace(t *testing.T) {
	g := graph.New()
	add := func(name string, row nb.Row) { g.Set(nb.NetworkOwner(name), nb.Facts{Rows: []nb.Row{row}}) }
	for _, name := range []string{"port 1", "port 2", "port 3"} {
		add(name, &nb.LogicalSwitchPort{UUID: name})
	}
	for _, name := range []string{"switch 1", "switch 2", "switch 3"} {
		add(name, &nb.LogicalSwitch{UUID: name})
	}
	take := func(n int) (taken []graph.Work) {
		for range n {
			w, _ := g.Next()
			taken = append(taken, w)
		}
		return taken
	}
	g.PutOff(take(2))
	taken := take(5)
	g.PutOff(taken[3:])
	g.PutOff(taken[1:3])
	var offered []string
	g.TakeContents(func(w graph.Work) bool {
		offered = append(offered, w.Owner.Name)
		return w.Owner.Name == "port 1"
	})
	if want := []string{"port 1", "port 2", "port 3"}; !slices.Equal(offered, want) {
		t.Errorf("%q were offered, want %q", offered, want)
	}
	var order []string
	for w, ok := g.Next(); ok; w, ok = g.Next() {
		order = append(order, w.Owner.Name)
	}
	if want := []string{"switch 2", "switch 3", "port 2", "port 3"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
	if g.Judging() != 0 || g.Pending() != 0 {
		t.Errorf("%d owners judge, and %d have work", g.Judging(), g.Pending())
	}
}

// Work that judges is counted by the namespaces that it concerns. A port group concerns those whose policies name it, also when they begin
// to while it waits; one that goes concerns nobody.
func TestWorkIsCountedByNamespaces(t *testing.T) {
	t.Parallel()
	g := graph.New()
	want := func(when string, namespaces ...string) {
		t.Helper()
		for _, namespace := range []string{"a", "b", "c"} {
			if is := slices.Contains(namespaces, namespace); g.JudgingAbout(nb.NetworkOwner("red"), namespace) != is {
				t.Errorf("%s something waits about namespace %s: %v, want %v", when, namespace, !is, is)
			}
		}
		if g.JudgingAbout(nb.NetworkOwner("blue"), "a") {
			t.Errorf("%s something waits in another Network", when)
		}
		if is := len(namespaces) > 0; g.JudgingFor(nb.NetworkOwner("red")) != is {
			t.Errorf("%s something waits in the Network: %v, want %v", when, !is, is)
		}
	}
	take := func() {
		for _, more := g.Next(); more; _, more = g.Next() {
			continue
		}
	}
	policy := nb.PolicyOwner(nb.KindNetworkPolicy, "a", "deny", "red")
	g.Set(policy, nb.Facts{Rows: []nb.Row{&nb.ACL{UUID: "deny"}}})
	want("with a policy", "a")
	take()
	want("without work")
	owner := nb.PortGroupOwner("red", "group")
	g.Use(owner, "a", +1)
	g.Set(owner, nb.Facts{Rows: []nb.Row{&nb.PortGroup{UUID: "group"}}})
	want("with a group", "a")
	g.Use(owner, "b", +1)
	want("when another one names it", "a", "b")
	group := nb.Ref{Table: nb.TablePortGroup, UUID: "group"}
	if g.AllowsOnly(group) != true || g.ForOthers(nb.PodOwner("b", "pod"), group) || !g.ForOthers(nb.PodOwner("c", "pod"), group) {
		t.Error("the group is not of a and b")
	}
	g.Use(owner, "", +1)
	want("when a policy of the cluster names it", "a", "b", "c")
	if g.AllowsOnly(group) || g.ForOthers(nb.PodOwner("c", "pod"), group) {
		t.Error("a group that the cluster's policies name is taken for one of NetworkPolicies")
	}
	take()
	for _, namespace := range []string{"", "a", "b"} {
		g.Use(owner, namespace, -1)
	}
	g.Delete(owner)
	want("when the group goes")
	if users := g.Users(owner); g.Pending() != 1 || len(users) != 0 {
		t.Errorf("%d owners wait, and %q name the group", g.Pending(), users)
	}
	g.Set(nb.PolicyOwner(nb.KindClusterNetworkPolicy, "", "deny", "red"), nb.Facts{Rows: []nb.Row{&nb.ACL{UUID: "all"}}})
	want("with a policy of the cluster", "a", "b", "c")
}
