package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// store is a database that keeps what units write.
type store struct {
	rows map[nb.Ref]nb.Row
	sets map[nb.Member]bool
}

func (s store) Row(ref nb.Ref) (nb.Row, bool) { row, there := s.rows[ref]; return row, there }
func (s store) Has(ref nb.Ref) bool           { return s.rows[ref] != nil }
func (s store) HasMember(m nb.Member) bool    { return s.sets[m] }

func (s store) write(t *testing.T, units []plan.Unit) {
	t.Helper()
	for _, u := range units {
		for _, row := range u.Inserts {
			if s.Has(nb.RefOf(row)) {
				t.Fatalf("%s inserts %v, which is there", u.Owner, nb.RefOf(row))
			}
			s.rows[nb.RefOf(row)] = row
		}
		for _, up := range u.Updates {
			s.rows[nb.RefOf(up.Row)] = up.Row
		}
		for _, m := range u.Leaves {
			delete(s.sets, m)
		}
	}
	for _, u := range units {
		for _, m := range u.Joins {
			if !s.Has(m.Row) || !s.Has(m.Ref()) {
				t.Fatalf("%s has %v join %v, and one of them is not there", u.Owner, m.Ref(), m.Row)
			}
			s.sets[m] = true
		}
		for _, ref := range u.Deletes {
			delete(s.rows, ref)
		}
	}
	held := map[string]bool{}
	for m := range s.sets {
		if !s.Has(m.Row) || m.Column == nb.ColumnPorts && !s.Has(m.Ref()) {
			delete(s.sets, m)
		} else {
			held[m.Value] = true
		}
	}
	for ref := range s.rows {
		if ref.Table == nb.TableACL && !held[ref.UUID] {
			delete(s.rows, ref)
		}
	}
}

// open are the pairs of a pod and one that it may send to: the latter is not isolated, or an ACL on a group that holds it allows a group
// that holds the former. An ACL's match is the name of that group.
func (s store) open() map[[2]string]bool {
	out := map[[2]string]bool{}
	in := func(port, group string) bool {
		return s.sets[nb.Ref{Table: nb.TablePortGroup, UUID: group}.Holds(nb.ColumnPorts, port)]
	}
	for from := range crowd {
		for to := range crowd {
			from, to := fmt.Sprint("port-", from), fmt.Sprint("port-", to)
			if out[[2]string{from, to}] = !in(to, "alone"); !in(to, "alone") {
				continue
			}
			for m := range s.sets {
				acl, _ := s.rows[m.Ref()].(*nb.ACL)
				if m.Column == nb.ColumnACLs && acl != nil && acl.Match != "" && in(to, m.Row.UUID) && in(from, acl.Match) {
					out[[2]string{from, to}] = true
				}
			}
		}
	}
	return out
}

// crowd is how many pods a namespace has, and selections how many groups its policies name.
const crowd, selections, allowing = 24, 8, 40

// big is a namespace whose pods and policies are changed at random, all at once.
type big struct {
	*filling
	random *rand.Rand
	// epoch is in the names of groups that are there for one state alone.
	epoch int
}

func (b *big) group(i int) nb.Ref {
	name := fmt.Sprint("group-", i)
	if i%2 == 1 {
		name += fmt.Sprint(" of ", b.epoch)
	}
	return nb.Ref{Table: nb.TablePortGroup, UUID: name}
}

func (b *big) change() {
	b.epoch++
	for i := range selections {
		b.namedBy(b.group(i).UUID, "big")
	}
	isolated := nb.Ref{Table: nb.TablePortGroup, UUID: "alone"}
	for i := range crowd {
		port := &nb.LogicalSwitchPort{UUID: fmt.Sprint("port-", i)}
		facts := nb.Facts{Rows: []nb.Row{port}}
		if b.random.IntN(4) > 0 {
			facts.Members = append(facts.Members, isolated.Holds(nb.ColumnPorts, port.UUID))
		}
		for g := range selections {
			if b.random.IntN(3) == 0 {
				facts.Members = append(facts.Members, b.group(g).Holds(nb.ColumnPorts, port.UUID))
			}
		}
		b.graph.Set(nb.PodOwner("big", port.UUID), facts)
	}
	for i := range allowing {
		owner := nb.PolicyOwner(nb.KindNetworkPolicy, "big", fmt.Sprint(i), shared)
		switch _, there := b.graph.Facts(owner); {
		case there && b.random.IntN(2) == 0:
			continue
		case b.random.IntN(4) == 0:
			b.graph.Delete(owner)
			continue
		}
		acl := &nb.ACL{
			UUID: fmt.Sprint("acl-", i), Match: b.group(b.random.IntN(selections)).UUID, ExternalIDs: map[string]string{nb.KeyOwner: owner.String()},
		}
		hangs := b.group(b.random.IntN(selections)).Holds(nb.ColumnACLs, acl.UUID)
		b.graph.Set(owner, nb.Facts{Rows: []nb.Row{acl}, Members: []nb.Member{hangs}})
	}
}

// settle writes batches until nothing waits, and calls look after each.
func (b *big) settle(t *testing.T, there store, look func([]plan.Unit)) (batches int) {
	t.Helper()
	for b.graph.Pending() > 0 {
		if batches++; batches > 200 {
			t.Fatal("the work does not end")
		}
		filled := &batch{there: there, coming: plan.Coming{}}
		b.round.fill(filled)
		there.write(t, filled.units)
		for ref, owners := range b.drift.waiting {
			if there.Has(ref) {
				for owner := range owners {
					b.graph.TouchOwner(owner)
				}
				delete(b.drift.waiting, ref)
			}
		}
		look(filled.units)
	}
	return batches
}

func within(some, all map[[2]string]bool) bool {
	for pair, open := range some {
		if open && !all[pair] {
			return false
		}
	}
	return true
}

// A namespace that changes more at once than a transaction takes is divided, and then fails closed: after each transaction no more passes
// than before all of them, or no more than after.
func TestADividedNamespaceFailsClosed(t *testing.T) {
	t.Parallel()
	most := 0
	for seed := range uint64(40) {
		b := &big{filling: newFilling(), random: rand.New(rand.NewPCG(seed, 0))}
		b.cfg.MaxBatch = 8
		there := store{map[nb.Ref]nb.Row{}, map[nb.Member]bool{}}
		own := &nb.ACL{UUID: "drop", ExternalIDs: map[string]string{nb.KeyOwner: "PortGroup/shared/alone"}}
		group := &nb.PortGroup{UUID: "alone", ExternalIDs: map[string]string{nb.KeyOwner: "PortGroup/shared/alone"}}
		b.graph.Set(nb.PortGroupOwner(shared, group.UUID), nb.Facts{
			Rows: []nb.Row{group, own}, Members: []nb.Member{nb.RefOf(group).Holds(nb.ColumnACLs, own.UUID)},
		})
		b.change()
		b.settle(t, there, func([]plan.Unit) {})
		before := there.open()
		b.change()
		var seen []map[[2]string]bool
		batches := b.settle(t, there, func(units []plan.Unit) {
			seen = append(seen, there.open())
			size := 0
			for _, u := range units {
				size += u.Size()
			}
			if most := together*b.cfg.MaxBatch + 2*crowd; size > most {
				t.Errorf("seed %d: a transaction changes %d rows and elements, of %d at most", seed, size, most)
			}
		})
		after := there.open()
		for i, open := range seen {
			if !within(open, before) && !within(open, after) {
				t.Fatalf("seed %d: after %d of %d transactions more passes than before and than after", seed, i+1, batches)
			}
		}
		most = max(most, batches)
	}
	if most < 4 {
		t.Errorf("%d transactions at most: nothing was divided", most)
	}
}

// Where something opens, all that closes is in the transaction, however large what opens is.
func TestAllThatClosesComesWithTheFirstThatOpens(t *testing.T) {
	t.Parallel()
	f := newFilling()
	f.cfg.MaxBatch = 8
	_, group := f.namedBy("named", "big")
	f.graph.Next()
	there := store{map[nb.Ref]nb.Row{group: &nb.PortGroup{UUID: "named"}}, map[nb.Member]bool{}}
	f.rules(nb.KindNetworkPolicy, "big", "allow", group, 60)
	works := make([]graph.Work, 1, 6)
	works[0], _ = f.graph.Next()
	for i := range 5 {
		port := &nb.LogicalSwitchPort{UUID: fmt.Sprint("port-", i)}
		leaves := group.Holds(nb.ColumnPorts, port.UUID)
		there.rows[nb.RefOf(port)], there.sets[leaves] = port, true
		works = append(works, graph.Work{Owner: nb.PodOwner("big", port.UUID), Members: map[nb.Member]struct{}{leaves: {}}})
	}
	b := &batch{there: there, coming: plan.Coming{}}
	later := f.takeParts(b, works)
	parts := 0
	for _, u := range b.units {
		if u.Part {
			parts++
		}
	}
	if len(b.units) != 6 || parts != 5 || len(later) != 5 {
		t.Errorf("%d units, %d of them parts, and %d owners come again; want 6, 5 and 5", len(b.units), parts, len(later))
	}
}

// A part is not all of its owner's work: nobody is told that it is done, and it comes again.
func TestAPartIsNotDone(t *testing.T) {
	t.Parallel()
	b := &big{filling: newFilling(), random: rand.New(rand.NewPCG(1, 1))}
	b.cfg.MaxBatch = 8
	there := store{map[nb.Ref]nb.Row{}, map[nb.Member]bool{}}
	b.change()
	b.settle(t, there, func([]plan.Unit) {})
	b.change()
	parts := 0
	b.settle(t, there, func(units []plan.Unit) {
		seen := map[nb.Owner]bool{}
		for _, u := range units {
			if seen[u.Owner] {
				t.Fatalf("%s has two units in a transaction", u.Owner)
			}
			if seen[u.Owner] = true; u.Part {
				if parts++; !b.graph.Busy(u.Owner) {
					t.Fatalf("%s has nothing to do after a part", u.Owner)
				}
			}
		}
	})
	if parts == 0 {
		t.Error("there were no parts")
	}
	told := &hearing{}
	b.state, b.cfg.Metrics = told, NewMetrics(prometheus.NewRegistry())
	pod := nb.PodOwner("big", "port-1")
	for _, part := range []bool{true, false} {
		b.inflight = &transaction{units: []plan.Unit{{Owner: pod, Work: graph.Work{Owner: pod}, Part: part}}}
		if err := b.finish(t.Context(), nil); err != nil || (len(told.owners) == 0) != part {
			t.Errorf("a part: %v; said to be done: %v, %v", part, told.owners, err)
		}
	}
}

// hearing notes what is said to be done.
type hearing struct {
	Decider
	owners []nb.Owner
}

func (c *hearing) Committed(owner nb.Owner) { c.owners = append(c.owners, owner) }
