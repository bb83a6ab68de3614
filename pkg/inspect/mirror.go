package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/atoll-net/atoll/pkg/ovsdb"
)

// mirrorTime is how long a mirror is kept that nobody asks: a question follows another within it, and a controller that nobody asks has none.
const mirrorTime = time.Minute

// Mirror has the northbound database's rows for one question at a time. It reads them when somebody asks, and keeps up with them for a while.
type Mirror struct {
	database ovsdb.Config
	// turn is held by who uses the session, or ends it.
	turn    chan struct{}
	session *ovsdb.Session
	idle    *time.Timer
}

// NewMirror reads nothing yet. Whoever has it closes it.
func NewMirror(database ovsdb.Config) *Mirror {
	return &Mirror{database: database, turn: make(chan struct{}, 1)}
}

// use calls do with the rows as they are now.
func (m *Mirror) use(ctx context.Context, do func(northbound) error) error {
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
		m.session = session
	}
	// From here on it is as it is now.
	m.session.Take()
	m.idle = time.AfterFunc(mirrorTime, m.Close)
	return do(m.session)
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
