// Package ovsdb is the edge to the OVN northbound database: one session with an ovsdb-server.
//
// In: operations. Out: the rows that the monitor mirrors, and which of them changed since the last question.
// A Session lives as long as its connection; whoever needs the database for longer opens another one and
// looks at everything again.
//
// What must stay true: when Transact has returned, the mirror holds what was committed (the server sends the
// update before the answer, and libovsdb handles both in order); changes are gathered by row, so their number
// is bounded by that of the rows.
package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/nb"
	"github.com/atoll-net/atoll/pkg/plan"
)

// Times of a session.
const (
	// probeEvery is how often a silent connection is asked for a sign of life, and probeWait how long the
	// answer may take.
	probeEvery = 5 * time.Second
	probeWait  = 10 * time.Second
)

// ErrClosed: the connection has ended; what became of a transaction under way is not known.
var ErrClosed = errors.New("the connection to the database has ended")

// Config says where the database is.
type Config struct {
	// Addresses of the servers of one database, as unix:PATH, tcp:IP:PORT or ssl:IP:PORT. Of a raft cluster
	// the leader is used.
	Addresses []string
	Log       *slog.Logger
}

// Session is one connection with its mirror of the database.
type Session struct {
	client client.Client
	tables map[nb.Table]*cache.RowCache
	done   chan struct{}
	close  sync.Once

	mu      sync.Mutex
	changes Changes
	ready   chan struct{}
}

// Changes is what has changed in the database since it was last asked.
type Changes struct {
	// Rows that came, went or differ in a column that is not a member column.
	Rows map[nb.Ref]struct{}
	// Sets whose elements changed.
	Sets map[nb.Set]struct{}
}

// Open connects and returns once the mirror holds the whole of what we look at.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	dbModel, err := clientModel()
	if err != nil {
		return nil, err
	}
	log := logr.FromSlogHandler(cfg.Log.Handler())
	// Only a raft cluster has a leader to look for; libovsdb leaves a goroutine behind for each such search.
	options := []client.Option{client.WithLogger(&log), client.WithLeaderOnly(len(cfg.Addresses) > 1)}
	for _, a := range cfg.Addresses {
		options = append(options, client.WithEndpoint(a))
	}
	c, err := client.NewOVSDBClient(dbModel, options...)
	if err != nil {
		return nil, fmt.Errorf("set up client of %s: %w", nb.DatabaseName, err)
	}
	if err := c.Connect(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("connect to %s: %w", nb.DatabaseName, err)
	}
	s := &Session{
		client:  c,
		tables:  map[nb.Table]*cache.RowCache{},
		done:    make(chan struct{}),
		ready:   make(chan struct{}, 1),
		changes: newChanges(),
	}
	mirror := c.Cache()
	mirror.AddEventHandler(s.handler())
	if _, err := c.Monitor(ctx, c.NewMonitor(columnsOnly()...)); err != nil {
		c.Close()
		return nil, fmt.Errorf("monitor %s: %w", nb.DatabaseName, err)
	}
	s.tables[nb.TableGlobal] = mirror.Table(string(nb.TableGlobal))
	for _, t := range nb.Tables() {
		s.tables[t.Table] = mirror.Table(string(t.Table))
	}
	go s.watch(c.DisconnectNotify())
	return s, nil
}

// watch ends the session when the connection does, or when the server no longer answers. Close stops it.
func (s *Session) watch(disconnected <-chan struct{}) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-disconnected:
			s.Close()
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(context.Background(), probeWait)
			err := s.client.Echo(ctx)
			cancel()
			if err != nil {
				s.Close()
				return
			}
		}
	}
}

// Close ends the session.
func (s *Session) Close() {
	s.close.Do(func() {
		close(s.done)
		s.client.Close()
	})
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Schema is the server's schema.
func (s *Session) Schema() ovsdb.DatabaseSchema { return s.client.Schema() }

// Global is the UUID of the NB_Global row and its external_ids; false when a fresh database has none.
func (s *Session) Global() (*nb.Global, bool) {
	for uuid := range s.tables[nb.TableGlobal].RowsShallow() {
		if row, ok := s.Row(nb.Ref{Table: nb.TableGlobal, UUID: uuid}); ok {
			return row.(*nb.Global), true
		}
	}
	return nil, false
}

// Row returns a copy of a row.
func (s *Session) Row(ref nb.Ref) (nb.Row, bool) {
	table := s.tables[ref.Table]
	if table == nil {
		return nil, false
	}
	row, ok := table.Row(ref.UUID).(nb.Row)
	return row, ok
}

// Has reports whether a row is there.
func (s *Session) Has(ref nb.Ref) bool {
	table := s.tables[ref.Table]
	return table != nil && table.HasRow(ref.UUID)
}

// Rows lists the rows of a table; they belong to the mirror and must not be changed.
func (s *Session) Rows(table nb.Table) []nb.Row {
	shallow := s.tables[table].RowsShallow()
	rows := make([]nb.Row, 0, len(shallow))
	for _, r := range shallow {
		rows = append(rows, r.(nb.Row))
	}
	return rows
}

// Ready gets a value when there are changes to take.
func (s *Session) Ready() <-chan struct{} { return s.ready }

// Take returns what has changed since it was last called.
func (s *Session) Take() Changes {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.changes
	s.changes = newChanges()
	return c
}

func newChanges() Changes { return Changes{Rows: map[nb.Ref]struct{}{}, Sets: map[nb.Set]struct{}{}} }

func (s *Session) handler() cache.EventHandler {
	return &cache.EventHandlerFuncs{
		AddFunc:    func(_ string, m model.Model) { s.changed(nil, m.(nb.Row)) },
		UpdateFunc: func(_ string, old, m model.Model) { s.changed(old.(nb.Row), m.(nb.Row)) },
		DeleteFunc: func(_ string, m model.Model) { s.changed(m.(nb.Row), nil) },
	}
}

// changed notes the difference between two states of a row; nil is its absence.
func (s *Session) changed(old, row nb.Row) {
	s.mu.Lock()
	switch {
	case old == nil:
		s.changes.Rows[nb.RefOf(row)] = struct{}{}
	case row == nil:
		s.changes.Rows[nb.RefOf(old)] = struct{}{}
	default:
		ref := nb.RefOf(row)
		if plan.Differs(old, row) {
			s.changes.Rows[ref] = struct{}{}
		}
		for _, column := range nb.MemberColumns(ref.Table) {
			s.changes.Sets[nb.Set{In: ref, Column: column}] = struct{}{}
		}
	}
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}
