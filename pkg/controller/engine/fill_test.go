package engine

import (
	"fmt"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// holding is a database that holds rows, and nothing in their sets.
type holding struct {
	plan.Actual
	rows map[nb.Ref]bool
}

func (h holding) Has(ref nb.Ref) bool { return h.rows[ref] }

// filling is a round that fills batches of 100 rows and elements.
type filling struct {
	*round
	there holding
	sets  int
}

func newFilling(held ...nb.Ref) *filling {
	f := &filling{there: holding{Actual: &ovsdb.Session{}, rows: map[nb.Ref]bool{}}}
	for _, ref := range held {
		f.there.rows[ref] = true
	}
	f.round = &round{Engine: &Engine{cfg: Config{MaxBatch: 100}, graph: graph.New(), retry: newRetries(), graves: graves{}}, drift: newDrift()}
	return f
}

// fill has somebody make a set with elements, which is a container, and fills a batch.
func (f *filling) fill(elements int) *batch {
	f.sets++
	row := &nb.AddressSet{UUID: fmt.Sprintf("set-%d", f.sets)}
	facts := nb.Facts{Rows: []nb.Row{row}}
	for i := range elements {
		facts.Members = append(facts.Members, nb.Member{Set: nb.Set{Row: nb.RefOf(row), Column: "addresses"}, Value: fmt.Sprintf("10.0.%d.%d", i/250, i%250)})
	}
	f.graph.Set(nb.PortGroupOwner("restless", row.UUID), facts)
	b := &batch{there: f.there, coming: plan.Coming{}}
	f.round.fill(b)
	return b
}

// port has a pod want a port, with a place in each of the groups.
func (f *filling) port(name string, groups ...nb.Ref) nb.Owner {
	facts := nb.Facts{Rows: []nb.Row{&nb.LogicalSwitchPort{UUID: name}}}
	for _, group := range groups {
		facts.Members = append(facts.Members, nb.Member{Set: nb.Set{Row: group, Column: nb.ColumnPorts}, Value: name})
	}
	owner := nb.PodOwner("calm", name)
	f.graph.Set(owner, facts)
	return owner
}

var isolated = nb.Ref{Table: nb.TablePortGroup, UUID: "isolated"}

// However much somebody changes without a pause, what others want is in the second batch.
func TestNobodyIsPutOffForLong(t *testing.T) {
	t.Parallel()
	for _, elements := range []int{50, 99, 150, 600} {
		for name, groups := range map[string][]nb.Ref{"free": nil, "grouped": {isolated}} {
			f := newFilling(isolated)
			f.fill(elements)
			owner, rounds := f.port("port", groups...), 0
			for ; f.graph.Busy(owner) && rounds < 100; rounds++ {
				f.fill(elements)
			}
			if rounds > 2 {
				t.Errorf("%d elements of somebody else in each round: a %s port was taken after %d rounds", elements, name, rounds)
			}
		}
	}
}

// Who waits is served in the order in which they came, and all of them.
func TestManyThatWaitAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	f := newFilling()
	var want, got []nb.Owner
	for i := range 500 {
		want = append(want, f.port(fmt.Sprintf("port-%03d", i)))
	}
	for range 20 {
		for _, u := range f.fill(150).units {
			if u.Owner.Kind == nb.KindPod {
				got = append(got, u.Owner)
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d of %d ports were taken, in the order\n%v", len(got), len(want), got)
	}
}

// A port that was put off waits for a policy's group that is to be made: without it nothing would isolate the port.
func TestAPortThatWasPutOffWaitsForItsGroups(t *testing.T) {
	t.Parallel()
	f := newFilling()
	owner := f.port("port", isolated)
	for range 3 {
		if f.fill(150); !f.graph.Busy(owner) {
			t.Fatal("a port was taken before its group was there")
		}
	}
	f.there.rows[isolated] = true
	if f.fill(150); f.graph.Busy(owner) {
		t.Error("a port was not taken when its group was there")
	}
}
