package agree

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/google/uuid"
	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
	"github.com/atoll-net/atoll/test/ovn"
)

// northbound is a northbound database that belongs to the test, with its ovn-northd.
type northbound struct {
	central *ovn.Central
	session *ovsdb.Session
	encoder plan.Encoder
}

func openNorthbound(ctx context.Context, central *ovn.Central) (*northbound, error) {
	if _, err := central.NBCtl(ctx, "init"); err != nil {
		return nil, err
	}
	session, err := ovsdb.Open(ctx, ovsdb.Config{Addresses: []string{central.NBAddress()}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return &northbound{central: central, session: session, encoder: plan.NewEncoder(session.Schema())}, nil
}

// nothing is an empty database.
type nothing struct{}

func (nothing) Row(nb.Ref) (nb.Row, bool) { return nil, false }
func (nothing) Has(nb.Ref) bool           { return false }
func (nothing) HasMember(nb.Member) bool  { return false }

// replace puts the rows of a product in place of whatever is there, and waits until ovn-northd has made logical flows of
// them.
func (n *northbound) replace(ctx context.Context, p product) error {
	// No row has this UUID, so that every row is another.
	every := libovsdb.NewCondition("_uuid", libovsdb.ConditionNotEqual, libovsdb.UUID{GoUUID: uuid.Nil.String()})
	var empty []plan.Operation
	for _, table := range nb.Tables() {
		if nb.IsRoot(table.Table) {
			empty = append(empty, plan.Operation{Op: libovsdb.OperationDelete, Table: table.Table.String(), Where: []libovsdb.Condition{every}})
		}
	}
	if err := n.session.Transact(ctx, nil, empty); err != nil {
		return fmt.Errorf("empty the northbound database: %w", err)
	}
	// ovn-northd 25.03.0 crashes when a load balancer goes and comes again under its UUID before it has looked.
	if err := n.settle(ctx); err != nil {
		return err
	}
	units, err := unitsOf(p.graph)
	if err != nil {
		return err
	}
	ops, err := n.encoder.Operations(units)
	if err != nil {
		return fmt.Errorf("write the rows: %w", err)
	}
	if err := n.session.Transact(ctx, nil, ops); err != nil {
		return fmt.Errorf("write the rows: %w", err)
	}
	return n.settle(ctx)
}

// unitsOf are all that a graph wants, for one transaction. What of an owner refers to rows of others that come after it is in it
// once more, at the end.
func unitsOf(g *graph.Graph) (units []plan.Unit, err error) {
	coming := plan.Coming{}
	blocked := map[nb.Ref]bool{}
	var again []graph.Work
	for {
		work, more := g.Next()
		if !more {
			break
		}
		u := plan.Compare(work, g, nothing{}, coming)
		for _, ref := range u.Blocked {
			blocked[ref] = true
		}
		if len(u.Blocked) > 0 {
			again = append(again, work)
		}
		units = append(units, letIn(u))
	}
	for _, work := range again {
		u := plan.Compare(work, g, nothing{}, coming)
		if len(u.Blocked) > 0 {
			return nil, fmt.Errorf("write the rows of %s: a row that they belong in is missing: %v", u.Owner, u.Blocked)
		}
		joins := slices.DeleteFunc(u.Joins, func(m nb.Member) bool { return !blocked[m.Ref()] })
		units = append(units, plan.Unit{Owner: u.Owner, Work: work, Joins: joins})
	}
	return units, nil
}

// letIn takes out what keeps faces out of a Network that serves no other, and what refuses datagrams to addresses that nobody
// serves, before any policy is asked. That is the platform's matter: here they are let in, so that policies are asked about
// addresses that are nobody's of the Network. Those of a Network that serves others stay, as the oracle knows them.
func letIn(u plan.Unit) plan.Unit {
	names := map[string]bool{nb.Peers: true, nb.Unserved: true}
	gone := map[string]bool{}
	for _, row := range u.Inserts {
		if set, is := row.(*nb.AddressSet); is && set.ExternalIDs[nb.KeySelector] == compile.FacesTaken {
			names[nb.Peers] = false
		}
	}
	for _, row := range u.Inserts {
		if acl, is := row.(*nb.ACL); is && acl.Name != nil && names[*acl.Name] {
			gone[acl.UUID] = true
		}
	}
	u.Inserts = slices.DeleteFunc(u.Inserts, func(row nb.Row) bool { return gone[row.ID()] })
	u.Joins = slices.DeleteFunc(u.Joins, func(m nb.Member) bool { return gone[m.Value] })
	return u
}

// settle waits until ovn-northd has taken in what the database holds.
func (n *northbound) settle(ctx context.Context) error {
	if _, err := n.central.NBCtl(ctx, "--timeout=60", "--wait=sb", "sync"); err != nil {
		return fmt.Errorf("wait for ovn-northd: %w; its last words:\n%s", err, n.central.LastWords("northd"))
	}
	return nil
}

func (n *northbound) close() { n.session.Close() }
