package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// round is the engine's work on one session.
type round struct {
	*Engine
	session *ovsdb.Session
	encoder plan.Encoder
	// inflight is the transaction under way, and next the one that is ready to follow it; nil when there is none.
	inflight, next *transaction
	results        chan error
	// calm: everything has been compared and written once.
	calm bool
	// groups are work to be tried before all other: the parts of a transaction that was refused.
	groups [][]graph.Work
	// whole: what was gathered last is no such part; parted: a whole one was refused, and none was accepted since.
	whole, parted bool
	// turns say what is in the batch that is gathered of what decides what passes.
	turns turns
	// contents: the last batch was of what brings no containers and need not wait for others.
	contents bool
	drift    *drift
	// begun: the database is in our epoch, and what others left in it has been looked for. opened is when the session was.
	begun  bool
	opened time.Time
	// global: the NB_Global row has changed since the round last read it.
	global bool
}

func newRound(e *Engine, session *ovsdb.Session) *round {
	return &round{
		Engine: e, session: session,
		encoder: plan.NewEncoder(session.Schema()),
		results: make(chan error, 1),
		drift:   newDrift(), opened: time.Now(),
	}
}

// takeOver puts the database into our epoch: from here on no earlier controller can write. The first time in a
// term it takes the database from whoever had it: we hold the Lease. Later, after a reconnect, the epoch must
// still be ours, or gone: another one's means that we have been deposed and did not hear of it.
func (r *round) takeOver(ctx context.Context) error {
	global, there := r.session.Global()
	present := ""
	if there {
		present = global.ExternalIDs[nb.KeyEpoch]
	}
	if r.reigned && present != "" && present != r.cfg.Epoch {
		return fmt.Errorf("%w: its epoch is %s", ErrDeposed, present)
	}
	if err := enter(ctx, r.session, r.encoder.SetEpoch(r.cfg.Epoch, global, r.cfg.Options), r.encoder, global); err != nil {
		return err
	}
	r.reigned = true
	return nil
}

// uphold writes what takeOver wrote once more, if somebody has taken it out.
func (r *round) uphold(ctx context.Context) error {
	global, ok := r.session.Global()
	if ok && upheld(global, r.cfg) {
		return nil
	}
	if err := r.takeOver(ctx); err != nil {
		return err
	}
	r.log.Warn("NB_Global had been changed by somebody else; it has our epoch and options again")
	return nil
}

// upheld reports whether NB_Global has all that takeOver writes.
func upheld(global *nb.Global, cfg Config) bool {
	for key, value := range cfg.Options {
		if global.Options[key] != value {
			return false
		}
	}
	return global.ExternalIDs[nb.KeyEpoch] == cfg.Epoch && global.Options[nb.OptionInvalid] == nb.InvalidUnmatched
}

func (r *round) serve(ctx context.Context) error {
	r.graph.TouchAll()
	r.state.Hold()
	r.state.Connected(r.session.Rows)
	by := timers{look: time.NewTimer(time.Hour), again: time.NewTimer(time.Hour), turn: time.NewTimer(time.Hour)}
	defer by.stop()
	all := time.NewTicker(compareAllEvery)
	defer all.Stop()
	alive := time.NewTicker(beatEvery)
	defer alive.Stop()
	for {
		r.beat.Store(time.Now().UnixNano())
		if err := r.pump(ctx); err != nil {
			return err
		}
		r.setTimers(by)
		// An answer comes first: the server waits for the next transaction.
		select {
		case err := <-r.results:
			if err := r.finish(ctx, err); err != nil {
				return err
			}
			continue
		default:
		}
		select {
		case <-ctx.Done():
			r.drain()
			return nil
		case <-r.session.Done():
			return ovsdb.ErrClosed
		case <-r.cfg.Source.Ready():
		case ask := <-r.asked:
			ask()
		case <-r.session.Ready():
			r.observe()
		case err := <-r.results:
			if err := r.finish(ctx, err); err != nil {
				return err
			}
		case <-by.look.C:
		case <-by.turn.C:
		case <-by.again.C:
			for _, w := range r.retry.due(time.Now()) {
				r.graph.Return(w)
			}
		case <-all.C:
			r.suspectAll()
		case <-alive.C:
			r.tell()
		}
	}
}

// tell tells pods that have waited for long what they wait for, and statuses that have been held back for long enough.
func (r *round) tell() {
	r.state.TellWaiting(time.Now())
	if time.Since(r.opened) > holdLongest && r.begun {
		r.state.Compared()
	}
}

// timers wake the loop of a round for what is due by time alone.
type timers struct {
	// look is for drift, again for work that is tried again, and turn for the state.
	look, again, turn *time.Timer
}

func (t timers) stop() {
	t.look.Stop()
	t.again.Stop()
	t.turn.Stop()
}

// setTimers sets the timers of what is due next. The others stay as they are.
func (r *round) setTimers(t timers) {
	if d, ok := r.drift.due(time.Now()); ok && r.inflight == nil {
		t.look.Reset(d)
	}
	if d, ok := r.retry.next(time.Now()); ok {
		t.again.Reset(d)
	}
	if due, ok := r.state.Due(); ok {
		t.turn.Reset(time.Until(due))
	}
}

// drain waits for the transaction under way, so that nothing of ours is written after Run has returned.
func (r *round) drain() {
	if r.inflight == nil {
		return
	}
	select {
	case err := <-r.results:
		r.cfg.Metrics.transaction(err, time.Since(r.inflight.started))
		if err != nil {
			r.log.Warn("the last transaction failed", "error", err)
		}
	case <-r.session.Done():
	}
}

// pump applies what the cluster has to say and starts the next transaction if none is under way. While one is, and
// much waits, it makes the next one ready.
func (r *round) pump(ctx context.Context) error {
	if !r.absorb() {
		return nil
	}
	if !r.begun {
		if err := r.takeOver(ctx); err != nil {
			return err
		}
		r.sweep()
		r.begun = true
	}
	if r.global && r.inflight == nil {
		r.global = false
		if err := r.uphold(ctx); err != nil {
			return err
		}
	}
	r.cfg.Metrics.owners.Set(float64(r.graph.Owners()))
	d, suspected := r.drift.due(time.Now())
	due := suspected && d == 0
	if r.inflight == nil && r.next == nil {
		// Before the next transaction, so that a steady stream of them cannot put it off.
		if due {
			r.verify()
		}
		r.next = r.prepare(r.gather())
	}
	if r.inflight == nil && r.next != nil {
		r.start(ctx)
	}
	switch {
	case r.inflight == nil:
		r.settled()
	case r.next == nil && !due && !r.inflight.looked && r.graph.Pending() >= aheadFrom && r.plain():
		r.next = r.prepare(r.gatherAhead())
		r.inflight.looked = r.next == nil
	}
	return nil
}

func (r *round) lives(owner nb.Owner) bool {
	_, ok := r.graph.Facts(owner)
	return ok
}

// done: the database holds what w's owner wants.
func (r *round) done(w graph.Work) {
	for ref := range w.Refs {
		r.wake(ref)
	}
	r.retry.forget(w.Owner)
	r.state.Committed(w.Owner)
}

// settled: everything has been compared. It gives memory back that only the first comparison needed: the lists of all
// objects and all rows.
func (r *round) settled() {
	if r.calm {
		return
	}
	r.calm = true
	r.complete.Store(true)
	r.state.Compared()
	go debug.FreeOSMemory()
}

// start sends the next transaction off. What becomes of it, its preparation included, comes as a result.
func (r *round) start(ctx context.Context) {
	tx := r.next
	r.inflight, r.next = tx, nil
	tx.started = time.Now()
	if tx.err != nil {
		r.results <- tx.err
		return
	}
	r.cfg.Metrics.batch.Observe(float64(len(tx.units)))
	go func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), transactTime)
		defer cancel()
		r.results <- r.session.Transact(bounded, tx.guard, tx.ops)
	}()
}

// finish takes the answer to the transaction under way. The next one was made ready as if all of it would be written.
func (r *round) finish(ctx context.Context, err error) error {
	tx := r.inflight
	r.inflight = nil
	r.cfg.Metrics.transaction(err, time.Since(tx.started))
	if err != nil && r.next != nil {
		r.giveBack(r.next)
		r.next = nil
	}
	var refused *ovsdb.RefusedError
	switch {
	case err == nil:
		r.graves.bury(tx.units, time.Now())
		r.parted = r.parted && !tx.whole
		if r.next != nil {
			r.start(ctx)
		}
		for _, u := range tx.units {
			if len(u.Blocked) == 0 && !u.Part {
				r.done(u.Work)
			}
		}
		return nil
	case errors.Is(err, ovsdb.ErrMissed):
		// Somebody took a row away at that moment. What there is now is in the mirror.
		r.giveBack(tx)
		return nil
	case errors.Is(err, ovsdb.ErrGuard):
		r.giveBack(tx)
		return r.contest(ctx)
	case errors.As(err, &refused):
		r.divide(tx.units, refused)
		return nil
	}
	return err
}

// contest decides what a guard that did not hold means: another controller has taken over, or somebody
// tampered with the NB_Global row.
func (r *round) contest(ctx context.Context) error {
	err := r.takeOver(ctx)
	if err == nil {
		r.log.Warn("the epoch had been taken out of NB_Global; it is written again")
	}
	return err
}
