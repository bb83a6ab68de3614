package plan_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// memory is a northbound database that fits in a test: it keeps rows and sets, and like the real one it
// refuses dangling references, collects rows that no set refers to, and takes rows that have gone out of the sets that
// refer to them weakly.
type memory struct {
	rows map[nb.Ref]nb.Row
	sets map[nb.Set]map[string]bool
}

func newMemory() *memory {
	return &memory{rows: map[nb.Ref]nb.Row{}, sets: map[nb.Set]map[string]bool{}}
}

func (m *memory) Row(ref nb.Ref) (nb.Row, bool) { r, ok := m.rows[ref]; return r, ok }
func (m *memory) Has(ref nb.Ref) bool           { return m.rows[ref] != nil }
func (m *memory) HasMember(x nb.Member) bool    { return m.sets[x.Set][x.Value] }

// missed reports whether units change rows that are not there: as the real one, the database then does the rest.
func (m *memory) missed(units []plan.Unit) bool {
	coming := map[nb.Ref]bool{}
	for _, u := range units {
		for _, r := range u.Inserts {
			coming[nb.RefOf(r)] = true
		}
	}
	for _, u := range units {
		for _, up := range u.Updates {
			if m.rows[nb.RefOf(up.Row)] == nil {
				return true
			}
		}
		for _, x := range u.Joins {
			if m.rows[x.Row] == nil && !coming[x.Row] {
				return true
			}
		}
	}
	return false
}

// commit applies one transaction and returns which rows changed.
func (m *memory) commit(t *rapid.T, units []plan.Unit) []nb.Ref {
	for _, u := range units {
		for _, r := range u.Inserts {
			if m.rows[nb.RefOf(r)] != nil {
				t.Fatalf("%s inserts %v, which exists", u.Owner, nb.RefOf(r))
			}
			m.rows[nb.RefOf(r)] = r
		}
	}
	for _, u := range units {
		for _, up := range u.Updates {
			if m.rows[nb.RefOf(up.Row)] == nil {
				t.Fatalf("%s updates a row that does not exist", u.Owner)
			}
			m.rows[nb.RefOf(up.Row)] = up.Row
		}
		for _, x := range u.Leaves {
			delete(m.sets[x.Set], x.Value)
		}
	}
	for _, u := range units {
		for _, x := range u.Joins {
			if m.rows[x.Row] == nil {
				t.Fatalf("%s joins a set of a row that does not exist", u.Owner)
			}
			if m.sets[x.Set] == nil {
				m.sets[x.Set] = map[string]bool{}
			}
			m.free(x)
			m.sets[x.Set][x.Value] = true
		}
		for _, ref := range u.Deletes {
			delete(m.rows, ref)
		}
	}
	return m.collect(t)
}

// free takes out what a map has at the key of a pair that joins it.
func (m *memory) free(x nb.Member) {
	if !x.IsMap() {
		return
	}
	key, _ := nb.SplitPair(x.Value)
	maps.DeleteFunc(m.sets[x.Set], func(pair string, _ bool) bool { k, _ := nb.SplitPair(pair); return k == key })
}

// collect enforces what the schema does: strong references, and no life without one.
func (m *memory) collect(t *rapid.T) []nb.Ref {
	var gone []nb.Ref
	maps.DeleteFunc(m.sets, func(s nb.Set, elements map[string]bool) bool { return m.rows[s.Row] == nil || len(elements) == 0 })
	referred := map[nb.Ref]bool{}
	for s, elements := range m.sets {
		if s.IsValue() || isWeak(s) {
			continue
		}
		for v := range elements {
			ref := nb.Member{Set: s, Value: v}.Ref()
			if m.rows[ref] == nil {
				t.Fatalf("%v refers to %v, which does not exist", s, ref)
			}
			referred[ref] = true
		}
	}
	for ref := range m.rows {
		if !nb.IsRoot(ref.Table) && !referred[ref] {
			delete(m.rows, ref)
			gone = append(gone, ref)
		}
	}
	for s, elements := range m.sets {
		if isWeak(s) {
			maps.DeleteFunc(elements, func(v string, _ bool) bool { return m.rows[nb.Member{Set: s, Value: v}.Ref()] == nil })
		}
	}
	return gone
}

func isWeak(s nb.Set) bool { return nb.IsWeak(nb.Column{Table: s.Row.Table, Name: s.Column}) }

// world is a graph, a database, and owners in waiting: they need a row that does not exist yet, and outlast one call
// as they do in the engine.
type world struct {
	*graph.Graph
	*memory
	waiting map[nb.Ref][]nb.Owner
}

// gather compares a few owners' work; what a transaction under way concerns waits.
func (w *world) gather(t *rapid.T, there plan.Actual, busy func(graph.Work) bool) (units []plan.Unit, coming plan.Coming) {
	coming = plan.Coming{}
	var later []graph.Work
	for range rapid.IntRange(1, 4).Draw(t, "batch") {
		work, ok := w.Next()
		if !ok {
			break
		}
		if busy(work) {
			later = append(later, work)
			continue
		}
		u := plan.Compare(work, w.Graph, there, coming)
		w.comesWhole(t, u, there)
		for _, ref := range u.Blocked {
			w.waiting[ref] = append(w.waiting[ref], u.Owner)
		}
		units = append(units, u)
	}
	for _, work := range later {
		w.Return(work)
	}
	return units, coming
}

// written tells the graph what the database did by itself, and wakes who waited for a row.
func (w *world) written(gone []nb.Ref, coming plan.Coming) {
	for _, ref := range gone {
		w.Touch(ref)
	}
	for ref := range coming {
		if w.Has(ref) {
			for _, owner := range w.waiting[ref] {
				w.TouchOwner(owner)
			}
			delete(w.waiting, ref)
		}
	}
}

// settle does all work there is, in batches of a random size. Sometimes a batch is compared while the one before is
// under way, and owners change meanwhile; and sometimes the one before is refused.
func (w *world) settle(t *rapid.T, change func()) {
	idle := func(graph.Work) bool { return false }
	for round := 0; w.Pending() > 0; round++ {
		if round > 200 {
			t.Fatal("the work never ends")
		}
		units, coming := w.gather(t, w.memory, idle)
		if round > 50 || rapid.Bool().Draw(t, "wait") {
			w.written(w.commit(t, units), coming)
			continue
		}
		flight := plan.NewFlight(units)
		refused, shown := rapid.IntRange(0, 9).Draw(t, "refused") == 0, rapid.Bool().Draw(t, "shown")
		var gone []nb.Ref
		if shown && !refused {
			gone = w.commit(t, units)
		}
		if rapid.Bool().Draw(t, "change") {
			change()
		}
		next, more := w.gather(t, flight.After(w.memory), flight.Concerns)
		if !shown && !refused {
			gone = w.commit(t, units)
		}
		w.written(gone, coming)
		switch {
		case refused:
			w.giveBack(units)
			w.giveBack(next)
		case w.missed(next):
			w.giveBack(next)
		default:
			w.written(w.commit(t, next), more)
		}
	}
}

func (w *world) giveBack(units []plan.Unit) {
	for _, u := range units {
		w.Return(u.Work)
	}
}

// TestHistoriesConverge: whatever the order in which owners come, change, move and go, and whatever somebody
// else does to the database meanwhile, it ends with the rows that the last facts of each owner ask for.
func TestHistoriesConverge(t *testing.T) { rapid.Check(t, histories) }

// FuzzHistoriesConverge looks for such a history with the fuzzer.
func FuzzHistoriesConverge(f *testing.F) { f.Fuzz(rapid.MakeFuzz(histories)) }

func histories(t *rapid.T) {
	w := &world{graph.New(), newMemory(), map[nb.Ref][]nb.Owner{}}
	c := newCluster(w.Graph)
	change := func() { c.change(t) }
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 5:
			w.settle(t, change)
		case 6:
			tamper(t, w.Graph, w.memory)
		default:
			change()
		}
	}
	w.settle(t, change)
	want := expected(c.last)
	if got := content(w.memory); !reflect.DeepEqual(got, want) {
		t.Fatalf("the database holds\n%v\nwant\n%v", got, want)
	}
	// Nothing differs: looking at everything again writes nothing.
	w.TouchAll()
	for {
		work, ok := w.Next()
		if !ok {
			break
		}
		if u := plan.Compare(work, w.Graph, w.memory, plan.Coming{}); !u.Empty() {
			t.Fatalf("with nothing to do there is %+v", u)
		}
	}
}

// tamper deletes or changes a row behind our back; the monitor tells the graph.
func tamper(t *rapid.T, g *graph.Graph, m *memory) {
	refs := slices.SortedFunc(maps.Keys(m.rows), func(a, b nb.Ref) int {
		if a.UUID < b.UUID {
			return -1
		}
		return 1
	})
	if len(refs) == 0 {
		return
	}
	ref := rapid.SampledFrom(refs).Draw(t, "victim")
	if port, ok := m.rows[ref].(*nb.LogicalSwitchPort); ok && rapid.Bool().Draw(t, "change") {
		changed := *port
		changed.Addresses = []string{"tampered"}
		m.rows[ref] = &changed
		g.Touch(ref)
		return
	}
	_, wanted := g.Row(ref)
	if lb, ok := m.rows[ref].(*nb.LoadBalancer); ok && wanted && rapid.Bool().Draw(t, "change") {
		tamperPair(t, g, m, nb.Set{Row: nb.RefOf(lb), Column: nb.ColumnVips})
		return
	}
	if group, ok := m.rows[ref].(*nb.PortGroup); ok && wanted && rapid.Bool().Draw(t, "change") {
		tamperPlace(t, g, m, nb.Set{Row: nb.RefOf(group), Column: nb.ColumnPorts})
		return
	}
	lost := maps.Clone(m.sets[nb.Set{Row: ref, Column: nb.ColumnVips}])
	delete(m.rows, ref)
	for _, elements := range m.sets {
		delete(elements, ref.UUID)
	}
	g.Touch(ref)
	for pair := range lost {
		g.TouchMember(nb.Member{Set: nb.Set{Row: ref, Column: nb.ColumnVips}, Value: pair})
	}
	for _, gone := range m.collect(t) {
		g.Touch(gone)
	}
}

// tamperPair gives a key of a map another value, or takes it out, or puts a strange one in.
func tamperPair(t *rapid.T, g *graph.Graph, m *memory, set nb.Set) {
	tell := func(value string) { g.TouchMember(nb.Member{Set: set, Value: value}) }
	if m.sets[set] == nil {
		m.sets[set] = map[string]bool{}
	}
	key := "strange"
	if pairs := slices.Sorted(maps.Keys(m.sets[set])); len(pairs) > 0 {
		victim := rapid.SampledFrom(pairs).Draw(t, "pair")
		delete(m.sets[set], victim)
		tell(victim)
		key, _ = nb.SplitPair(victim)
	}
	if rapid.Bool().Draw(t, "put") {
		strange := nb.Pair(key, "tampered")
		m.sets[set][strange] = true
		tell(strange)
	}
}

// expected is the content that facts ask for: a port is there only where its switch is.
func expected(owners map[nb.Owner]nb.Facts) map[string]string {
	rows, out := map[nb.Ref]nb.Row{}, map[string]string{}
	for _, f := range owners {
		for _, r := range f.Rows {
			rows[nb.RefOf(r)] = r
			if nb.IsRoot(r.Table()) {
				out[nb.RefOf(r).UUID] = describe(r)
			}
		}
	}
	// First all that live by a set, then those whom others refer to while they live.
	for _, weak := range []bool{false, true} {
		for _, f := range owners {
			for _, x := range f.Members {
				_, lives := out[x.Value]
				if rows[x.Row] == nil || isWeak(x.Set) != weak || weak && !lives {
					continue
				}
				out[x.Row.UUID+" "+x.Column+" "+x.Value] = "member"
				if !weak && !x.IsValue() {
					out[x.Value] = describe(rows[x.Ref()])
				}
			}
		}
	}
	return out
}

func content(m *memory) map[string]string {
	out := map[string]string{}
	for ref, r := range m.rows {
		out[ref.UUID] = describe(r)
	}
	for s, elements := range m.sets {
		for v := range elements {
			out[s.Row.UUID+" "+s.Column+" "+v] = "member"
		}
	}
	return out
}

// describe is what is in a row, its members apart.
func describe(r nb.Row) string {
	switch r := r.(type) {
	case *nb.LogicalSwitch:
		return fmt.Sprintf("switch %s %v", r.Name, r.OtherConfig)
	case *nb.LoadBalancer:
		return "load balancer " + r.Name
	case *nb.LogicalSwitchPort:
		return fmt.Sprintf("port %s %v", r.Name, r.Addresses)
	case *nb.PortGroup:
		return fmt.Sprintf("group %s %v", r.Name, r.ExternalIDs)
	case *nb.ACL:
		return fmt.Sprintf("ACL %s %s", r.Match, r.Action)
	}
	return fmt.Sprintf("%T", r)
}
