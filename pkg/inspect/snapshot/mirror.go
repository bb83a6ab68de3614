package snapshot

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// mirrorTime is how long a mirror is kept that nobody asks: a question follows another within it, and a controller that nobody
// asks has none.
const mirrorTime = time.Minute

// readTime bounds how long all rows are read.
const readTime = 5 * time.Minute

// Mirror has the northbound database's rows for one question at a time. It reads them when somebody asks, and keeps up with them
// for a while.
type Mirror struct {
	database ovsdb.Config
	// turn is held by who uses the session, or ends it.
	turn    chan struct{}
	session *ovsdb.Session
	idle    *time.Timer
	// reading ends the reading of all rows; nil while nobody reads them.
	reading atomic.Pointer[context.CancelFunc]
	// rows and members are when they were last heard to change, for as long as they count as changing.
	rows    map[nb.Ref]time.Time
	members map[nb.Member]time.Time
}

// NewMirror reads nothing yet. Whoever has it closes it.
func NewMirror(database ovsdb.Config) *Mirror {
	return &Mirror{database: database, turn: make(chan struct{}, 1)}
}

// Use calls do with the rows as they are now. Whoever asks first has all rows read. That goes on when their time is over, so that
// whoever asks again finds them: to read the rows of 50,000 pods takes longer than an answer may.
func (m *Mirror) Use(ctx context.Context, do func(Northbound) error) error {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return m.late(ctx)
	}
	var failed error
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		failed = m.prepare()
	}()
	leave := func() {
		m.idle = time.AfterFunc(mirrorTime, m.Close)
		<-m.turn
	}
	select {
	case <-ready:
		defer leave()
		if failed != nil {
			return failed
		}
		return do(m.session)
	case <-ctx.Done():
		go func() {
			defer leave()
			<-ready
		}()
		return m.late(ctx)
	}
}

// late is why somebody does not get the rows whose time is over.
func (m *Mirror) late(ctx context.Context) error {
	if m.reading.Load() != nil {
		return question.ErrReading
	}
	return context.Cause(ctx)
}

// prepare reads the rows, unless they are there and kept up with. Its caller holds the turn.
func (m *Mirror) prepare() error {
	if m.idle != nil {
		m.idle.Stop()
	}
	if m.session != nil {
		select {
		case <-m.session.Done():
			m.session = nil
		default:
		}
	}
	if m.session == nil {
		ctx, cancel := context.WithTimeout(context.Background(), readTime)
		defer cancel()
		m.reading.Store(&cancel)
		defer m.reading.Store(nil)
		session, err := ovsdb.Open(ctx, m.database)
		if err != nil {
			return fmt.Errorf("read the northbound database: %w", err)
		}
		m.session, m.rows, m.members = session, map[nb.Ref]time.Time{}, map[nb.Member]time.Time{}
		go m.follow(session)
	}
	// From here on it is as it is now.
	m.hear(m.session.Take())
	return nil
}

// follow hears of changes when they come, until the session ends.
func (m *Mirror) follow(s *ovsdb.Session) {
	for {
		select {
		case <-s.Done():
			return
		case <-s.Ready():
		}
		m.turn <- struct{}{}
		if m.session == s {
			m.hear(s.Take())
		}
		<-m.turn
	}
}

// hear notes what has changed just now, and forgets what has settled.
func (m *Mirror) hear(c ovsdb.Changes) {
	now := time.Now()
	for ref := range c.Rows {
		m.rows[ref] = now
	}
	for member := range c.Members {
		m.members[member] = now
	}
	old := func(at time.Time) bool { return now.Sub(at) >= SettleTime }
	maps.DeleteFunc(m.rows, func(_ nb.Ref, at time.Time) bool { return old(at) })
	maps.DeleteFunc(m.members, func(_ nb.Member, at time.Time) bool { return old(at) })
}

// Lately is what has changed within settleTime, for who uses the session.
func (m *Mirror) Lately() ovsdb.Changes {
	m.hear(m.session.Take())
	out := ovsdb.Changes{Rows: map[nb.Ref]struct{}{}, Members: map[nb.Member]struct{}{}}
	for ref := range m.rows {
		out.Rows[ref] = struct{}{}
	}
	for member := range m.members {
		out.Members[member] = struct{}{}
	}
	return out
}

// Close ends the mirror; a later question begins a new one.
func (m *Mirror) Close() {
	if cancel := m.reading.Load(); cancel != nil {
		(*cancel)()
	}
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	if m.idle != nil {
		m.idle.Stop()
	}
	if m.session != nil {
		m.session.Close()
		m.session = nil
	}
}

// SettleTime is how long a row that has changed counts as changing: ovn-northd and nodes follow within it on a cluster that is not busy.
const SettleTime = 5 * time.Second
