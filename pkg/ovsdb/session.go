// Package ovsdb is the edge to the OVN northbound database: one session with an ovsdb-server.
//
//	operations --Prepare, Commit--> server --updates--> mirror --> rows, elements of sets, and which of them changed
//
// A Session lives as long as its connection; whoever needs the database for longer opens another one and
// looks at everything again.
//
// What must stay true: when Commit has returned, the mirror holds what was committed (the server sends the
// update before the answer, and one goroutine reads both in order); what cannot be read ends the session, so that the
// mirror is never wrong; changes are gathered by row and element, so their number is bounded by what there is.
//
// The protocol is RFC 7047 with the updates of ovsdb-server(7). The mirror is our own: that of libovsdb took each row
// through maps of any value, which was the largest part of the controller's processor time, copied a whole set
// whenever one element of it changed, and dropped events when many came at once.
package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/nb"
)

// Times of a session.
const (
	// probeEvery is how often the connection is asked for a sign of life, and probeWait how long the
	// answer may take.
	probeEvery = 5 * time.Second
	probeWait  = 10 * time.Second
)

// Names of our monitors: the server repeats them in each update.
const (
	monitorRows   = "rows"
	monitorLeader = "leader"
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
	peer   *peer
	schema ovsdb.DatabaseSchema
	mirror *mirror
	log    *slog.Logger
	done   chan struct{}
	close  sync.Once
	ready  chan struct{}
}

// Changes is what has changed in the database since it was last asked.
type Changes struct {
	// Rows that came, went or differ in a column that is not a member column.
	Rows map[nb.Ref]struct{}
	// Members that came into their set or went from it.
	Members map[nb.Member]struct{}
}

func newChanges() Changes {
	return Changes{Rows: map[nb.Ref]struct{}{}, Members: map[nb.Member]struct{}{}}
}

// Open connects and returns once the mirror holds the whole of what we look at.
func Open(ctx context.Context, cfg Config) (*Session, error) {
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

func open(ctx context.Context, cfg Config, address string) (_ *Session, err error) {
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	s := &Session{mirror: newMirror(), log: cfg.Log, done: make(chan struct{}), ready: make(chan struct{}, 1)}
	s.peer = newPeer(conn, s.notified)
	go s.peer.run()
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if len(cfg.Addresses) > 1 {
		if err := s.followLeader(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.learnSchema(ctx); err != nil {
		return nil, err
	}
	if err := s.monitor(ctx); err != nil {
		return nil, err
	}
	go s.watch()
	return s, nil
}

func (s *Session) learnSchema(ctx context.Context) error {
	params, err := json.Marshal([]string{nb.DatabaseName})
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	if err := s.peer.call(ctx, "get_schema", params, func(c *cursor) error { return json.Unmarshal(c.value(), &s.schema) }); err != nil {
		return fmt.Errorf("read schema: %w", err)
	}
	for _, l := range s.mirror.layouts {
		if err := l.check(s.schema); err != nil {
			return err
		}
	}
	return nil
}

// monitor fills the mirror, and has the server keep it up to date.
func (s *Session) monitor(ctx context.Context) error {
	tables := map[nb.Table][]ovsdb.MonitorRequest{}
	for table, l := range s.mirror.layouts {
		tables[table] = []ovsdb.MonitorRequest{{Columns: l.columns()}}
	}
	params, err := json.Marshal([]any{nb.DatabaseName, monitorRows, tables})
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	err = s.peer.call(ctx, "monitor_cond", params, func(c *cursor) error {
		_, err := s.mirror.update(c)
		// That everything is new is no news.
		s.mirror.take()
		return err
	})
	if err != nil {
		return fmt.Errorf("read the whole database: %w", err)
	}
	return nil
}

// notified takes a message that nobody asked for. (ovsdb-server(7), "update2".)
func (s *Session) notified(method string, params []byte) error {
	if method != "update2" {
		return nil
	}
	c, position, monitor, news := &cursor{text: params}, 0, "", false
	var failed error
	c.array(func() {
		switch position++; {
		case position == 1:
			monitor = c.str()
		case position == 2 && monitor == monitorRows:
			if news, failed = s.mirror.update(c); failed != nil {
				c.fail()
			}
		case position == 2 && monitor == monitorLeader:
			if !leads(c) {
				s.log.Info("the database's server leads no longer")
				failed = ErrClosed
			}
		default:
			c.value()
		}
	})
	if err := errors.Join(failed, c.err); err != nil {
		if !errors.Is(err, ErrClosed) {
			s.log.Error("the database's update cannot be read", "error", err)
		}
		return err
	}
	if news {
		select {
		case s.ready <- struct{}{}:
		default:
		}
	}
	return nil
}

// watch ends the session when the connection does, or when the server no longer answers. Close stops it.
func (s *Session) watch() {
	defer s.Close()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.peer.done:
			s.log.Info("the connection to the database has ended", "error", s.peer.err)
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(context.Background(), probeWait)
			err := s.peer.call(ctx, "echo", []byte("[]"), func(c *cursor) error { c.value(); return nil })
			cancel()
			if err != nil {
				return
			}
		}
	}
}

// Close ends the session.
func (s *Session) Close() {
	s.close.Do(func() {
		close(s.done)
		_ = s.peer.conn.Close()
		<-s.peer.done
	})
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Schema is the server's schema.
func (s *Session) Schema() ovsdb.DatabaseSchema { return s.schema }

// Global is the NB_Global row; false when a fresh database has none.
func (s *Session) Global() (*nb.Global, bool) {
	for _, row := range s.mirror.table(nb.TableGlobal) {
		return row.(*nb.Global), true
	}
	return nil, false
}

// Row returns a row, which the caller must not change; its member columns are empty (see View).
func (s *Session) Row(ref nb.Ref) (nb.Row, bool) { return s.mirror.row(ref) }

// Adopt has the mirror hold row instead of have, which Row gave and which row equals: whoever keeps row anyway spares
// the memory of the other. Nobody may change row from then on.
func (s *Session) Adopt(have, row nb.Row) { s.mirror.adopt(have, row) }

// Has reports whether a row is there.
func (s *Session) Has(ref nb.Ref) bool {
	_, ok := s.mirror.row(ref)
	return ok
}

// HasMember reports whether an element is in its set.
func (s *Session) HasMember(m nb.Member) bool { return s.mirror.hasMember(m) }

// Elements are those of a set, in no order.
func (s *Session) Elements(set nb.Set) []string { return s.mirror.elements(set) }

// Holders finds the places of rows in sets.
func (s *Session) Holders(refs map[nb.Ref]struct{}) []nb.Member { return s.mirror.holders(refs) }

// Rows lists the rows of a table; they must not be changed, and their member columns are empty.
func (s *Session) Rows(table nb.Table) []nb.Row { return s.mirror.table(table) }

// Ready gets a value when there are changes to take.
func (s *Session) Ready() <-chan struct{} { return s.ready }

// Take returns what has changed since it was last called.
func (s *Session) Take() Changes { return s.mirror.take() }
