package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/atoll-net/atoll/pkg/graph"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
	"github.com/atoll-net/atoll/pkg/ovsdb"
	"github.com/atoll-net/atoll/pkg/plan"
)

// Bounds of the engine.
const (
	// maxBatch is how many rows and elements one transaction changes, unless Config says so; a single owner's changes are never divided,
	// nor are, up to together times as many, those that decide what passes.
	maxBatch = 2000
	together = 5
	// aheadFrom is how many owners must wait before a transaction is made ready while another is under way. Fewer
	// are better left alone: what comes meanwhile joins them.
	aheadFrom = 200
	// verifyAfter is how long elements of a set that changed are left to settle before they are compared. It bounds
	// how often that happens, and how long a wrong element stays.
	verifyAfter = 200 * time.Millisecond
	// transactTime is how long a transaction may take.
	transactTime = 60 * time.Second
	// dialTime is how long a connection and its first load may take.
	dialTime = 2 * time.Minute
	// redialFirst and redialMax bound the pause before the next connection.
	redialFirst = 100 * time.Millisecond
	redialMax   = 5 * time.Second
	// awayAfter is how long the database is away before anybody is told: a restart of it takes less. lookEvery is how
	// often that is looked at meanwhile.
	awayAfter = 4 * time.Second
	lookEvery = time.Second
	// holdLongest bounds how long statuses are held back for the first comparison.
	holdLongest = 10 * time.Second
	// compareAllEvery is how often everything is compared without a reason: libovsdb drops events when too
	// many come at once.
	compareAllEvery = 10 * time.Minute
	// beatEvery is how often the engine shows that it lives, and hungAfter when it is taken for dead; a dial
	// may take its time.
	beatEvery = 5 * time.Second
	hungAfter = dialTime + time.Minute
	// retryFirst and retryMax bound the pause before something refused is tried again, and retryChanged that before
	// it is when it has changed.
	retryFirst   = 100 * time.Millisecond
	retryMax     = time.Minute
	retryChanged = time.Second
)

// ErrDeposed: another controller has taken the database over.
var ErrDeposed = errors.New("another controller writes to the database now")

// Source gives the changes of the cluster. A kube.Feed is one.
type Source interface {
	Ready() <-chan struct{}
	Take() model.Changes
	// Synced: the first lists of all kinds of objects have been taken or can be.
	Synced() bool
}

// Decider decides what the database shall hold and what is told of it: it keeps a graph of what is wanted. One goroutine uses it,
// the engine's.
type Decider interface {
	// Turn moves time on: what the next Apply decides is of that moment. Due is when something changes by itself next; false
	// when nothing does.
	Turn(now time.Time)
	Due() (time.Time, bool)
	// Apply takes changes in: afterwards the graph wants what the cluster as a whole asks for.
	Apply(model.Changes)
	// Committed says that the database now holds what the graph wanted for an owner; if it wants something else since, more
	// follows. Refused says that the database does not accept it, and why.
	Committed(owner nb.Owner)
	Refused(owner nb.Owner, why string)
	// Hold has what is told wait for Compared, or Disconnected: until then it is not known what the database holds. Connected says
	// that it is compared anew as a whole: these are its rows, before anything is removed of them.
	Hold()
	Connected(rows func(nb.Table) []nb.Row)
	Compared()
	// Disconnected says that the database has been away since then.
	Disconnected(since time.Time)
	// TellWaiting tells those who have waited for the database for some time what they wait for.
	TellWaiting(now time.Time)
}

// Config sets an engine up.
type Config struct {
	Database ovsdb.Config
	Source   Source
	// Graph is what Decider keeps.
	Graph   *graph.Graph
	Decider Decider
	// Epoch names this controller's term of leadership; no other term has the same.
	Epoch string
	// Options of OVN as a whole that are kept in NB_Global beside those that rows need. They are for a database that is Atoll's alone.
	Options map[string]string
	// MaxBatch is how many rows and elements one transaction changes; 0: 2,000.
	MaxBatch int
	Log      *slog.Logger
	Metrics  *Metrics
}

// Engine moves changes from the cluster to the database.
type Engine struct {
	cfg   Config
	log   *slog.Logger
	graph *graph.Graph
	state Decider
	// primed: the first full set of objects has been applied.
	primed bool
	// reigned: the database has been in our epoch.
	reigned bool
	retry   *retries
	graves  graves
	beat    atomic.Int64
	asked   chan func()
	// complete: on the session that there is, everything has been compared and written once.
	complete atomic.Bool
}

// New makes an engine; Run runs it.
func New(cfg Config) *Engine {
	cfg.Decider.Hold()
	cfg.MaxBatch = cmp.Or(cfg.MaxBatch, maxBatch)
	return &Engine{
		cfg: cfg, log: cfg.Log, graph: cfg.Graph, state: cfg.Decider,
		retry: newRetries(), graves: graves{}, asked: make(chan func()),
	}
}

// Do runs ask on the engine's goroutine, where the decider may be asked. Its error is that the engine has no time before ctx
// ends.
func (e *Engine) Do(ctx context.Context, ask func()) error {
	done := make(chan struct{})
	select {
	case e.asked <- func() { defer close(done); ask() }:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run works until ctx ends (nil) or another controller has taken over (ErrDeposed). A lost database is dialled
// again for ever.
func (e *Engine) Run(ctx context.Context) error {
	pause, since := redialFirst, time.Now()
	for ctx.Err() == nil {
		err := e.connectAndServe(ctx, since, func() { pause = redialFirst })
		if errors.Is(err, ErrDeposed) || ctx.Err() != nil {
			return deposedOnly(err)
		}
		if pause == redialFirst {
			since = time.Now()
		}
		e.log.Warn("no database; dialling again", "error", err, "in", pause)
		again, stop := context.WithTimeout(ctx, pause)
		e.doWithout(again, since)
		stop()
		pause = min(2*pause, redialMax)
	}
	return nil
}

// Complete reports whether the database, as it is connected now, has been given everything that the cluster asks for once.
func (e *Engine) Complete() bool { return e.complete.Load() }

// Healthy reports whether the engine's goroutine works. One that has not been run yet is healthy.
func (e *Engine) Healthy() error {
	if last := e.beat.Load(); last != 0 && time.Since(time.Unix(0, last)) > hungAfter {
		return fmt.Errorf("the engine has not moved since %s", time.Unix(0, last).Format(time.RFC3339))
	}
	return nil
}

func deposedOnly(err error) error {
	if errors.Is(err, ErrDeposed) {
		return err
	}
	return nil
}

// connectAndServe works on one session. The database has been away since then.
func (e *Engine) connectAndServe(ctx context.Context, since time.Time, connected func()) error {
	session, err := e.dial(ctx, since)
	if err != nil {
		return err
	}
	defer session.Close()
	connected()
	e.log.Info("database connected", "addresses", e.cfg.Database.Addresses)
	e.cfg.Metrics.connected.Set(1)
	defer e.cfg.Metrics.connected.Set(0)
	defer e.complete.Store(false)
	return newRound(e, session).serve(ctx)
}

// dial opens a session. Meanwhile the engine does what it can without one.
func (e *Engine) dial(ctx context.Context, since time.Time) (session *ovsdb.Session, err error) {
	bounded, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	waiting, dialled := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer dialled()
		session, err = ovsdb.Open(bounded, e.cfg.Database)
	}()
	e.doWithout(waiting, since)
	return session, err
}

// doWithout works without the database until ctx ends. What the cluster asks for is decided and told: rows follow once
// the database is back, and who waits for it is told so.
func (e *Engine) doWithout(ctx context.Context, since time.Time) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		e.beat.Store(time.Now().UnixNano())
		// Rows tell what nobody saw going (Decider.Connected), and before it is known others would get it: the first decisions wait for them, but not for a database
		// that is away.
		if e.primed || time.Since(since) >= awayAfter {
			e.absorb()
		}
		if now := time.Now(); e.primed && now.Sub(since) >= awayAfter {
			e.state.Disconnected(since)
			e.state.TellWaiting(now)
		}
		select {
		case <-ctx.Done():
		case <-e.cfg.Source.Ready():
		case ask := <-e.asked:
			ask()
		case <-tick.C:
		}
	}
}

// absorb applies what the cluster has to say. It reports whether the first full set of objects has been applied.
func (e *Engine) absorb() bool {
	// Synced comes before Take: so the first Take holds the whole of every first list.
	if !e.primed && !e.cfg.Source.Synced() {
		return false
	}
	e.state.Turn(time.Now())
	e.state.Apply(e.cfg.Source.Take())
	e.primed = true
	return true
}

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
	drift         *drift
	// begun: the database is in our epoch, and what others left in it has been looked for. opened is when the session was.
	begun  bool
	opened time.Time
	// global: the NB_Global row has changed since it was last looked at.
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
	look, again, turn, all := time.NewTimer(time.Hour), time.NewTimer(time.Hour), time.NewTimer(time.Hour), time.NewTicker(compareAllEvery)
	defer look.Stop()
	defer again.Stop()
	defer turn.Stop()
	defer all.Stop()
	alive := time.NewTicker(beatEvery)
	defer alive.Stop()
	for {
		r.beat.Store(time.Now().UnixNano())
		if err := r.pump(ctx); err != nil {
			return err
		}
		if d, ok := r.drift.due(time.Now()); ok && r.inflight == nil {
			look.Reset(d)
		}
		if d, ok := r.retry.next(time.Now()); ok {
			again.Reset(d)
		}
		if due, ok := r.state.Due(); ok {
			turn.Reset(time.Until(due))
		}
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
		case <-look.C:
		case <-turn.C:
		case <-again.C:
			for _, w := range r.retry.due(time.Now()) {
				r.graph.Return(w)
			}
		case <-all.C:
			r.suspectAll()
		case <-alive.C:
			r.state.TellWaiting(time.Now())
			if time.Since(r.opened) > holdLongest && r.begun {
				r.state.Compared()
			}
		}
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
			if len(u.Blocked) == 0 {
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
