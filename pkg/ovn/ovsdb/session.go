// Package ovsdb is the edge to the OVN northbound database: one session with an ovsdb-server, by means of libovsdb.
//
//	operations --Transact--> server --updates--> libovsdb's mirror --> rows; which rows and which elements of sets changed
//
// A Session lives as long as its connection; whoever needs the database for longer opens another one and
// looks at everything again.
//
// What must stay true: when Transact has returned, rows and sets are what was committed (the server sends the update
// before the answer, and libovsdb handles both in order); changes are gathered by row and element, so that their
// number is bounded by what there is. They come a little later than the rows that they are about.
package ovsdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Times of a session.
const (
	// connectWait is how long one of several servers may take to be reached before the next is tried.
	connectWait = 10 * time.Second
	// probeEvery is how often the connection is asked for a sign of life, and probeWait how long the
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
	// Find says, in place of Addresses, where the servers are: before each connection. Nil: Addresses do.
	Find func(context.Context) ([]string, error)
	// TLS is for addresses that begin with ssl:. It is asked anew with each connection.
	TLS *tls.Config
	Log *slog.Logger
}

// Session is one connection with its mirror of the database.
type Session struct {
	client  client.Client
	tables  map[nb.Table]*cache.RowCache
	sets    sets
	changes changes
	done    chan struct{}
	close   sync.Once
}

// Open connects and returns once the mirror holds the whole of what we look at.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	if cfg.Find != nil {
		var err error
		if cfg.Addresses, err = cfg.Find(ctx); err != nil {
			return nil, fmt.Errorf("find %s: %w", nb.DatabaseName, err)
		}
	}
	var problems []error
	for _, address := range cfg.Addresses {
		s, err := open(ctx, cfg, address)
		if err == nil {
			return s, nil
		}
		problems = append(problems, fmt.Errorf("connect to %s at %s: %w", nb.DatabaseName, address, err))
	}
	return nil, errors.Join(problems...)
}

func open(ctx context.Context, cfg Config, address string) (*Session, error) {
	if strings.HasPrefix(address, "ssl:") && cfg.TLS == nil {
		return nil, errors.New("there is no certificate for it")
	}
	dbModel, err := clientModel()
	if err != nil {
		return nil, err
	}
	log := logr.FromSlogHandler(cfg.Log.Handler())
	// Only a raft cluster has a leader to look for; libovsdb leaves a goroutine behind for each such search.
	// A cluster of one, of which a record tells, may become one of three at any time.
	several := len(cfg.Addresses) > 1 || cfg.Find != nil
	c, err := client.NewOVSDBClient(dbModel, client.WithLogger(&log), client.WithLeaderOnly(several), client.WithEndpoint(address),
		client.WithTLSConfig(cfg.TLS))
	if err != nil {
		return nil, fmt.Errorf("set up client: %w", err)
	}
	s := &Session{client: c, tables: map[nb.Table]*cache.RowCache{}, sets: newSets(), changes: newGathering(), done: make(chan struct{})}
	lost := disconnected(c, s.done)
	connect, cancel := ctx, context.CancelFunc(func() {})
	if several {
		connect, cancel = context.WithTimeout(ctx, connectWait)
	}
	err = c.Connect(connect)
	cancel()
	if err != nil {
		s.abandon()
		return nil, err
	}
	mirror := c.Cache()
	if mirror == nil {
		s.abandon()
		return nil, ErrClosed
	}
	mirror.AddEventHandler(s.handler())
	monitor := c.NewMonitor(columnsOnly()...)
	// Of the two methods that ask for changes only, libovsdb ends the connection after an update that does not fit with
	// this one; with monitor_cond_since it drops such an update.
	monitor.Method = ovsdb.ConditionalMonitorRPC
	if _, err := c.Monitor(ctx, monitor); err != nil {
		s.abandon()
		return nil, fmt.Errorf("read the whole database: %w", err)
	}
	held := map[string]struct{}{}
	for _, row := range mirrored() {
		rows := mirror.Table(row.Table().String())
		s.tables[row.Table()] = rows
		for uuid := range rows.RowsShallow() {
			held[uuid] = struct{}{}
		}
	}
	s.changes.whole(held)
	go s.watch(lost)
	return s, nil
}

// abandon ends a session that nobody watches yet.
func (s *Session) abandon() {
	s.Close()
	s.client.Close()
}

// disconnected returns a channel that is closed when c, which has not connected yet, loses its connection, or when stop
// is closed. libovsdb tells of a lost connection only whoever waits to hear of it at that moment, so that somebody must
// do nothing else.
func disconnected(c client.Client, stop <-chan struct{}) <-chan struct{} {
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		select {
		case <-c.DisconnectNotify():
		case <-stop:
		}
	}()
	return lost
}

// watch ends the connection when the session ends, and the session when the connection does. Close stops it.
func (s *Session) watch(lost <-chan struct{}) { keepConnection(s.client, lost, s.done, s.Close) }

// keepConnection closes c when done is closed, and calls end when c is lost or its server no longer answers. It returns then.
func keepConnection(c client.Client, lost, done <-chan struct{}, end func()) {
	defer c.Close()
	defer end()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-lost:
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(context.Background(), probeWait)
			err := c.Echo(ctx)
			cancel()
			if err != nil {
				return
			}
		}
	}
}

// until is a context that ends with the session too: libovsdb does not close a connection while a call is under way.
func (s *Session) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Close ends the session; its connection is closed soon after.
func (s *Session) Close() { s.close.Do(func() { close(s.done) }) }

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Schema is the server's schema.
func (s *Session) Schema() ovsdb.DatabaseSchema { return s.client.Schema() }

// Global is the NB_Global row; false when a fresh database has none.
func (s *Session) Global() (*nb.Global, bool) {
	for _, row := range s.Rows(nb.TableGlobal) {
		return row.(*nb.Global), true
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

// HasMember reports whether an element is in its set, as that was at the last Take or Transact, or later.
func (s *Session) HasMember(m nb.Member) bool { return s.sets.has(m, s.Row) }

// Holders finds the places of rows in sets. It looks at every set.
func (s *Session) Holders(refs map[nb.Ref]struct{}) []nb.Member {
	var out []nb.Member
	for _, table := range nb.Tables() {
		for _, column := range nb.MemberColumns(table.Table) {
			for _, row := range s.Rows(table.Table) {
				set := nb.Set{Row: nb.RefOf(row), Column: column}
				for _, uuid := range nb.Members(row, column) {
					m := nb.Member{Set: set, Value: uuid}
					if _, asked := refs[m.Ref()]; asked {
						out = append(out, m)
					}
				}
			}
		}
	}
	return out
}
