package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// crowd is a group of a namespace's policies, and pods of another with places in it.
func crowd(g *graph.Graph, m *memory, pods int) (group *nb.PortGroup, set nb.Set) {
	owner := nb.PortGroupOwner("net", "peers")
	group = &nb.PortGroup{UUID: "peers", ExternalIDs: map[string]string{nb.KeyOwner: owner.String()}}
	set = nb.Set{Row: nb.RefOf(group), Column: nb.ColumnPorts}
	g.Use(owner, "others", +1)
	g.Set(owner, nb.Facts{Rows: []nb.Row{group}})
	m.rows[nb.Ref{Table: nb.TableLogicalSwitch, UUID: "switch"}] = &nb.LogicalSwitch{UUID: "switch"}
	g.Set(nb.NetworkOwner("net"), nb.Facts{Rows: []nb.Row{&nb.LogicalSwitch{UUID: "switch"}}})
	for i := range pods {
		g.Set(nb.PodOwner("ns", fmt.Sprint(i)), places(i, set))
	}
	return group, set
}

func places(i int, sets ...nb.Set) nb.Facts {
	port := &nb.LogicalSwitchPort{UUID: fmt.Sprint("port-", i), ExternalIDs: map[string]string{nb.KeyOwner: "Pod/ns/p"}}
	in := nb.Ref{Table: nb.TableLogicalSwitch, UUID: "switch"}
	f := nb.Facts{Rows: []nb.Row{port}, Members: []nb.Member{in.Holds(nb.ColumnPorts, port.UUID)}}
	for _, set := range sets {
		f.Members = append(f.Members, nb.Member{Set: set, Value: port.UUID})
	}
	return f
}

// compareAll compares the work of pods, and then that of all others, in one transaction.
func compareAll(g *graph.Graph, m *memory) (units []plan.Unit) {
	var pods, others []graph.Work
	for work, more := g.Next(); more; work, more = g.Next() {
		if work.Owner.Kind == nb.KindPod {
			pods = append(pods, work)
		} else {
			others = append(others, work)
		}
	}
	coming := plan.Coming{}
	for _, work := range slices.Concat(pods, others) {
		units = append(units, plan.Compare(work, g, m, coming))
	}
	return units
}

// A new port does not wait for groups of other namespaces' policies. They bring it, in the same transaction or later.
func TestAPortComesBeforeGroupsOfOthers(t *testing.T) {
	t.Parallel()
	g, m := graph.New(), newMemory()
	group, set := crowd(g, m, 1)
	units := compareAll(g, m)
	joins := map[nb.Kind]int{}
	for _, u := range units {
		if len(u.Blocked) > 0 {
			t.Errorf("%s waits for %v", u.Owner, u.Blocked)
		}
		for _, x := range u.Joins {
			if x.Set == set {
				joins[u.Owner.Kind]++
			}
		}
	}
	if joins[nb.KindPod] != 0 || joins[nb.KindPortGroup] != 1 {
		t.Errorf("who has the port join the group: %v", joins)
	}
	// The group of a policy of its own namespace is another matter.
	g.Use(nb.PortGroupOwner("net", "peers"), "ns", +1)
	g.TouchOwner(nb.PodOwner("ns", "0"))
	work, _ := g.Next()
	if u := plan.Compare(work, g, m, plan.Coming{}); len(u.Inserts) > 0 || !slices.Contains(u.Blocked, nb.RefOf(group)) {
		t.Errorf("a port does not wait for a group of its namespace: %+v", u)
	}
}

// A group of policies that nobody wants goes as a whole, whoever comes first: its thousands of places are not taken out one by one. That of
// a Network goes with the ACLs that name it, which are the Network's.
func TestAGroupThatGoesTakesItsPlacesAlong(t *testing.T) {
	t.Parallel()
	for owner, want := range map[nb.Owner][2]int{nb.PortGroupOwner("net", "peers"): {0, 1}, nb.NetworkOwner("net"): {50, 0}} {
		if leaves, deletes := groupGoes(owner); leaves != want[0] || deletes != want[1] {
			t.Errorf("%s: %d places leave, and %d rows go before their owner's; want %v", owner, leaves, deletes, want)
		}
	}
}

// groupGoes has a group go whose row says that it is an owner's, and counts the places that pods leave, and the rows that they delete.
func groupGoes(owner nb.Owner) (leaves, deletes int) {
	g, m := graph.New(), newMemory()
	group, set := crowd(g, m, 50)
	group.ExternalIDs[nb.KeyOwner] = owner.String()
	for _, more := g.Next(); more; _, more = g.Next() {
		continue
	}
	m.rows[nb.RefOf(group)] = group
	m.sets[set] = map[string]bool{}
	for i := range 50 {
		port := fmt.Sprint("port-", i)
		m.rows[nb.Ref{Table: nb.TableLogicalSwitchPort, UUID: port}] = places(i).Rows[0]
		m.sets[set][port] = true
		g.Set(nb.PodOwner("ns", fmt.Sprint(i)), places(i))
	}
	g.Use(nb.PortGroupOwner("net", "peers"), "others", -1)
	g.Delete(nb.PortGroupOwner("net", "peers"))
	for _, u := range compareAll(g, m) {
		if u.Owner.Kind != nb.KindPod {
			continue
		}
		deletes += len(u.Deletes)
		for _, x := range u.Leaves {
			if x.Set == set {
				leaves++
			}
		}
	}
	return leaves, deletes
}
