//go:build integration

package ovsdb_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	"go.uber.org/goleak"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	session "github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/tier"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, addresses ...string) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), session.Config{Addresses: addresses, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// content is all that a session's mirror holds, as text in which equal content is equal.
func content(s *session.Session) string {
	var lines []string
	for _, table := range nb.Tables() {
		for _, row := range s.Rows(table.Table) {
			lines = append(lines, fmt.Sprintf("%s %s", table.Table, nbText(row)))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func nbText(row nb.Row) string {
	switch r := row.(type) {
	case *nb.LogicalSwitchPort:
		c := *r
		c.Addresses = slices.Sorted(slices.Values(r.Addresses))
		return fmt.Sprintf("%+v", c)
	case *nb.LogicalSwitch:
		c := *r
		c.Ports = slices.Sorted(slices.Values(r.Ports))
		return fmt.Sprintf("%+v", c)
	}
	return row.ID()
}

// history is random changes of a few switches and ports, as operations of one transaction each.
type history struct {
	ports  map[string]int
	made   int
	random *rand.Rand
}

func (h *history) next() []ovsdb.Operation {
	where := func(table, uuid string) ovsdb.Operation {
		return ovsdb.Operation{
			Table: table, Where: []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: uuid})},
		}
	}
	mutate := func(table, uuid, column string, how ovsdb.Mutator, value any) ovsdb.Operation {
		op := where(table, uuid)
		op.Op, op.Mutations = ovsdb.OperationMutate, []ovsdb.Mutation{*ovsdb.NewMutation(column, how, value)}
		return op
	}
	port := func(uuid string) ovsdb.OvsSet { return ovsdb.OvsSet{GoSet: []any{ovsdb.UUID{GoUUID: uuid}}} }
	// A map has another order each time.
	known := slices.Sorted(maps.Keys(h.ports))
	if len(known) == 0 || h.random.IntN(3) == 0 {
		h.made++
		uuid, sw := nb.UUID(nb.TableLogicalSwitchPort, fmt.Sprint(h.made)), h.random.IntN(3)
		h.ports[uuid] = sw
		return []ovsdb.Operation{{
			Op: ovsdb.OperationInsert, Table: "Logical_Switch_Port", UUID: uuid,
			Row: ovsdb.Row{"name": fmt.Sprintf(`p"\%d`, h.made), "addresses": ovsdb.OvsSet{GoSet: []any{"a", "ü"}}},
		}, mutate("Logical_Switch", switchUUID(sw), "ports", ovsdb.MutateOperationInsert, port(uuid))}
	}
	uuid := known[h.random.IntN(len(known))]
	at := switchUUID(h.ports[uuid])
	switch h.random.IntN(6) {
	case 0:
		delete(h.ports, uuid)
		return []ovsdb.Operation{mutate("Logical_Switch", at, "ports", ovsdb.MutateOperationDelete, port(uuid))}
	case 1:
		to := h.random.IntN(3)
		h.ports[uuid] = to
		return []ovsdb.Operation{
			mutate("Logical_Switch", at, "ports", ovsdb.MutateOperationDelete, port(uuid)),
			mutate("Logical_Switch", switchUUID(to), "ports", ovsdb.MutateOperationInsert, port(uuid)),
		}
	case 2:
		how := []ovsdb.Mutator{ovsdb.MutateOperationInsert, ovsdb.MutateOperationDelete}[h.random.IntN(2)]
		return []ovsdb.Operation{
			mutate("Logical_Switch_Port", uuid, "addresses", how, ovsdb.OvsSet{GoSet: []any{fmt.Sprint(h.random.IntN(3)), "a"}}),
		}
	case 3:
		op := where("Logical_Switch_Port", uuid)
		op.Op, op.Row = ovsdb.OperationUpdate, ovsdb.Row{"type": []string{"", "router"}[h.random.IntN(2)], "up": true}
		return []ovsdb.Operation{op}
	case 4:
		op := where("Logical_Switch_Port", uuid)
		options := ovsdb.OvsMap{GoMap: map[any]any{}}
		for range h.random.IntN(3) {
			options.GoMap[fmt.Sprint(h.random.IntN(3))] = fmt.Sprint(h.random.IntN(3))
		}
		op.Op, op.Row = ovsdb.OperationUpdate, ovsdb.Row{"options": options}
		return []ovsdb.Operation{op}
	default:
		return []ovsdb.Operation{mutate("Logical_Switch_Port", uuid, "external_ids", ovsdb.MutateOperationInsert,
			ovsdb.OvsMap{GoMap: map[any]any{"k": fmt.Sprint(h.random.IntN(3))}})}
	}
}

func switchUUID(i int) string { return nb.UUID(nb.TableLogicalSwitch, fmt.Sprint(i)) }

// TestMirrorIsWhatAFreshOneIs: after any changes the mirror that followed them is the one that somebody gets who
// connects now; and it is so at the moment at which the change is answered.
func TestMirrorIsWhatAFreshOneIs(t *testing.T) {
	central := ovn.Start(t, false)
	s := open(t, central.NBAddress())
	var switches []ovsdb.Operation
	for i := range 3 {
		switches = append(switches, ovsdb.Operation{
			Op: ovsdb.OperationInsert, Table: "Logical_Switch", UUID: switchUUID(i), Row: ovsdb.Row{"name": fmt.Sprint(i)},
		})
	}
	if err := s.Transact(t.Context(), nil, switches); err != nil {
		t.Fatal(err)
	}
	h := &history{ports: map[string]int{}, random: rand.New(rand.NewPCG(tier.Seed(t), 0))}
	for i := range 600 {
		ops := h.next()
		if err := s.Transact(t.Context(), nil, ops); err != nil {
			t.Fatalf("change %d, %+v: %v", i, ops, err)
		}
		for uuid, sw := range h.ports {
			m := nb.Member{Set: nb.Set{Row: nb.Ref{Table: nb.TableLogicalSwitch, UUID: switchUUID(sw)}, Column: nb.ColumnPorts}, Value: uuid}
			if !s.Has(m.Ref()) || !s.HasMember(m) {
				t.Fatalf("after change %d, %+v, port %s is not in its switch", i, ops, uuid)
			}
		}
		if i%100 != 99 {
			continue
		}
		fresh := open(t, central.NBAddress())
		if got, want := content(s), content(fresh); got != want {
			t.Fatalf("after %d changes the mirror holds\n%s\na fresh one\n%s", i+1, got, want)
		}
		fresh.Close()
	}
}

// TestWhatIsThereAtFirstIsNoNews: of a database with many rows a session tells what has changed since it began, and nothing else.
// A row of the beginning that goes and comes again is news.
func TestWhatIsThereAtFirstIsNoNews(t *testing.T) {
	central := ovn.Start(t, false)
	insert := func(i int) ovsdb.Operation {
		return ovsdb.Operation{Op: ovsdb.OperationInsert, Table: "Logical_Switch", UUID: switchUUID(i), Row: ovsdb.Row{"name": fmt.Sprint(i)}}
	}
	remove := func(i int) ovsdb.Operation {
		return ovsdb.Operation{
			Op: ovsdb.OperationDelete, Table: "Logical_Switch", Where: []ovsdb.Condition{
				ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: switchUUID(i)}),
			},
		}
	}
	const rows = 5000
	var first []ovsdb.Operation
	for i := range rows {
		first = append(first, insert(i))
	}
	writer := open(t, central.NBAddress())
	must := func(operations ...ovsdb.Operation) {
		t.Helper()
		if err := writer.Transact(t.Context(), nil, operations); err != nil {
			t.Fatal(err)
		}
	}
	must(first...)
	ref := func(i int) nb.Ref { return nb.Ref{Table: nb.TableLogicalSwitch, UUID: switchUUID(i)} }
	for i := range 5 {
		s := open(t, central.NBAddress())
		heard := map[nb.Ref]struct{}{}
		// News come in the order of changes.
		until := func(last nb.Ref) {
			t.Helper()
			for {
				if _, is := heard[last]; is {
					return
				}
				select {
				case <-s.Ready():
				case <-t.Context().Done():
					t.Fatal("the session tells of no change")
				}
				maps.Copy(heard, s.Take().Rows)
			}
		}
		must(remove(i))
		must(insert(rows + i))
		until(ref(rows + i))
		delete(heard, ref(i))
		must(insert(i))
		must(remove(rows + i))
		must(insert(2*rows + i))
		until(ref(2*rows + i))
		want := map[nb.Ref]struct{}{ref(i): {}, ref(rows + i): {}, ref(2*rows + i): {}}
		if !maps.Equal(heard, want) {
			t.Errorf("session %d tells of %d rows, want the %d that have changed", i, len(heard), len(want))
		}
		s.Close()
	}
}

func TestOutcomesOfATransaction(t *testing.T) {
	central := ovn.Start(t, false)
	s := open(t, central.NBAddress())
	insert := ovsdb.Operation{Op: ovsdb.OperationInsert, Table: "Logical_Switch", UUID: switchUUID(1), Row: ovsdb.Row{"name": "one"}}
	if err := s.Transact(t.Context(), nil, []ovsdb.Operation{insert}); err != nil {
		t.Fatal(err)
	}
	var refused *session.RefusedError
	if err := s.Transact(t.Context(), nil, []ovsdb.Operation{insert}); !errors.As(err, &refused) {
		t.Errorf("the same row again: %v, want a refusal", err)
	}
	gone := ovsdb.Operation{
		Op: ovsdb.OperationUpdate, Table: "Logical_Switch", Row: ovsdb.Row{"name": "two"},
		Where: []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: switchUUID(2)})},
	}
	if err := s.Transact(t.Context(), nil, []ovsdb.Operation{gone}); !errors.Is(err, session.ErrMissed) {
		t.Errorf("a row that is not there: %v, want %v", err, session.ErrMissed)
	}
	// A server that answers no longer, and a caller that waits no longer.
	if err := syscall.Kill(central.PID("nb"), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Transact(ctx, nil, []ovsdb.Operation{gone}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that is stopped: %v, want %v", err, context.DeadlineExceeded)
	}
	select {
	case <-s.Done():
	case <-time.After(5 * time.Second):
		t.Error("the session goes on after an answer was not waited for")
	}
}

// The server ends at any moment after the session began: the first are those in which nobody might be listening yet. A
// session that hears of it only by its probe takes 5 seconds or more.
func TestASessionEndsWithItsServer(t *testing.T) {
	var s *session.Session
	var address string
	for i := range 40 {
		central := ovn.Start(t, false)
		address = central.NBAddress()
		s = open(t, address)
		central.Kill("nb")
		select {
		case <-s.Done():
		case <-time.After(5 * time.Second):
			t.Fatalf("session %d outlives its server", i)
		}
	}
	if err := s.Transact(t.Context(), nil, nil); !errors.Is(err, session.ErrClosed) {
		t.Errorf("a transaction on it: %v, want %v", err, session.ErrClosed)
	}
	if _, err := session.Open(t.Context(),
		session.Config{Addresses: []string{address, "what:ever"}, Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a session with a server that is gone")
	}
}
