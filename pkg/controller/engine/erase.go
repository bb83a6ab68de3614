package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// Erasure takes all that is ours out of a database that stays: rows with an owner, what has OVN sample for us, and our keys of
// NB_Global, where an option gets the value back that it had before. What others wrote stays. It may be called again, and goes on
// where it failed.
type Erasure struct {
	Database ovsdb.Config
	// Epoch is one of its own: a controller that writes meanwhile has it fail.
	Epoch string
	// Patience is how long the database may be out of reach.
	Patience time.Duration
}

// Run returns how many rows there were. It fails if the database is out of reach, refuses because foreign rows refer to ours, or
// is being written by somebody else.
func (e Erasure) Run(ctx context.Context) (rows int, err error) {
	session, err := e.open(ctx)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	encoder := plan.NewEncoder(session.Schema())
	global, _ := session.Global()
	if err := enter(ctx, session, encoder.SetEpoch(e.Epoch, global, nil), encoder, global); err != nil {
		return 0, err
	}
	global, there := session.Global()
	if !there {
		return 0, errors.New("the database has no row NB_Global")
	}
	epoch, err := encoder.EpochGuard(e.Epoch, global.UUID)
	if err != nil {
		return 0, err
	}
	guard := []plan.Operation{epoch}
	for left := ours(session); len(left) > 0; left = ours(session) {
		if rows == 0 {
			rows = len(left)
		}
		units := removal(session, left)
		if len(units) == 0 {
			return rows, fmt.Errorf("delete rows: rows of others keep %d of ours, by columns that Atoll does not read: the first is %s %s",
				len(left), left[0].Table, left[0].UUID)
		}
		for part := range slices.Chunk(units, maxBatch) {
			ops, err := encoder.Operations(part)
			if err != nil {
				return rows, err
			}
			// A row that somebody else has taken away meanwhile is what we wanted.
			if err := session.Transact(ctx, guard, ops); err != nil && !errors.Is(err, ovsdb.ErrMissed) {
				return rows, fmt.Errorf("delete rows: %w", err)
			}
		}
	}
	// Samples have gone with the ACLs that referred to them.
	if err := session.Transact(ctx, guard, append(ovsdb.WithdrawSamples(session.Schema()), encoder.LeaveGlobal(global))); err != nil {
		return rows, fmt.Errorf("leave NB_Global: %w", err)
	}
	return rows, nil
}

// open connects, again and again while there is patience.
func (e Erasure) open(ctx context.Context) (*ovsdb.Session, error) {
	deadline := time.Now().Add(e.Patience)
	for {
		bounded, cancel := context.WithDeadline(ctx, deadline)
		session, err := ovsdb.Open(bounded, e.Database)
		cancel()
		if err == nil || time.Until(deadline) < lookEvery {
			return session, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(lookEvery):
		}
	}
}

// ours are the rows of ours, each after those that would keep it.
func ours(session *ovsdb.Session) (refs []nb.Ref) {
	for _, table := range holdersFirst() {
		for _, row := range session.Rows(table) {
			if plan.Ours(row) {
				refs = append(refs, nb.RefOf(row))
			}
		}
	}
	return refs
}

// removal makes units that delete rows, in their order, and take them out of rows of others. What lives by its places alone goes
// with the last of them.
func removal(session *ovsdb.Session, refs []nb.Ref) []plan.Unit {
	going := make(map[nb.Ref]struct{}, len(refs))
	for _, ref := range refs {
		going[ref] = struct{}{}
	}
	elsewhere := map[nb.Ref][]nb.Member{}
	for _, m := range session.Holders(going) {
		if _, goes := going[m.Row]; !goes {
			elsewhere[m.Ref()] = append(elsewhere[m.Ref()], m)
		}
	}
	var units []plan.Unit
	for _, ref := range refs {
		u := plan.Unit{Owner: nb.OrphanOwner(ref), Leaves: elsewhere[ref]}
		if nb.IsRoot(ref.Table) {
			u.Deletes = []nb.Ref{ref}
		}
		if !u.Empty() {
			units = append(units, u)
		}
	}
	return units
}

// holdersFirst are the tables whose rows have owners, each after those whose rows refer to it: the database refuses to delete a
// row that another refers to.
func holdersFirst() (out []nb.Table) {
	var rest []nb.Table
	for _, t := range nb.Tables() {
		rest = append(rest, t.Table)
	}
	held := func(t nb.Table) bool {
		return slices.ContainsFunc(rest, func(holder nb.Table) bool {
			return holder != t && slices.ContainsFunc(nb.MemberColumns(holder), func(name string) bool {
				c := nb.Column{Table: holder, Name: name}
				return nb.TargetTable(c) == t && !nb.IsWeak(c)
			})
		})
	}
	for len(rest) > 0 {
		free := slices.IndexFunc(rest, func(t nb.Table) bool { return !held(t) })
		// OVN's tables refer to each other in no circle.
		free = max(free, 0)
		out = append(out, rest[free])
		rest = slices.Delete(rest, free, free+1)
	}
	return out
}

// enter puts the database into an epoch by ops, unless somebody has taken it since we looked. There is no global in a fresh database.
func enter(ctx context.Context, session *ovsdb.Session, ops []plan.Operation, encoder plan.Encoder, global *nb.Global) error {
	var guard []plan.Operation
	if global != nil && global.ExternalIDs[nb.KeyEpoch] != "" {
		op, err := encoder.EpochGuard(global.ExternalIDs[nb.KeyEpoch], global.UUID)
		if err != nil {
			return err
		}
		guard = append(guard, op)
	}
	if err := session.Transact(ctx, guard, ops); err != nil {
		return fmt.Errorf("take the database over: %w", err)
	}
	return nil
}
