package snapshot

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// mirrorTime is how long a mirror is kept that nobody asks: a question follows another within it, and a controller that nobody
// asks has none.
const mirrorTime = time.Minute

// Mirror has the northbound database's rows for one question at a time. It reads them when somebody asks, and keeps up with them
// for a while.
type Mirror struct {
	database ovsdb.Config
	// turn is held by who uses the session, or ends it.
	turn    chan struct{}
	session *ovsdb.Session
	idle    *time.Timer
	// rows and members are when they were last heard to change, for as long as they count as changing.
	rows    map[nb.Ref]time.Time
	members map[nb.Member]time.Time
}

// NewMirror reads nothing yet. Whoever has it closes it.
func NewMirror(database ovsdb.Config) *Mirror {
	return &Mirror{database: database, turn: make(chan struct{}, 1)}
}

// Use calls do with the rows as they are now.
func (m *Mirror) Use(ctx context.Context, do func(Northbound) error) error {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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
		session, err := ovsdb.Open(ctx, m.database)
		if err != nil {
			return fmt.Errorf("read the northbound database: %w", err)
		}
		m.session, m.rows, m.members = session, map[nb.Ref]time.Time{}, map[nb.Member]time.Time{}
		go m.follow(session)
	}
	// From here on it is as it is now.
	m.hear(m.session.Take())
	m.idle = time.AfterFunc(mirrorTime, m.Close)
	return do(m.session)
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
