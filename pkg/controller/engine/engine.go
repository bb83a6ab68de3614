package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// Bounds of the engine.
const (
	// maxBatch is how many rows and elements one transaction changes, unless Config says so; a single owner's changes are never divided.
	// What decides what passes has room for together times as many: more has turns (chooseTurns).
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
	// Share names whose a namespace is: its tenant, or the namespace itself if it has none.
	Share(namespace string) string
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
		// Rows tell what nobody saw going (Decider.Connected), and before it is known others would get it: the first decisions wait for
		// them, but not for a database that is away.
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
