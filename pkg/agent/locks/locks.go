// Package locks gives turns: one holder at a time to each key.
package locks

import (
	"context"
	"sync"
)

// Locks are the keys that are held. A key that nobody holds or wants takes no memory.
type Locks struct {
	mu   sync.Mutex
	held map[string]*turn
}

// turn is a key's lock: whoever can put a token into the channel holds it.
type turn struct {
	token chan struct{}
	users int
}

// New makes Locks of which none is held.
func New() *Locks { return &Locks{held: map[string]*turn{}} }

// Acquire waits for a key until ctx ends. The caller releases it once.
func (l *Locks) Acquire(ctx context.Context, key string) (release func(), err error) {
	l.mu.Lock()
	t := l.held[key]
	if t == nil {
		t = &turn{token: make(chan struct{}, 1)}
		l.held[key] = t
	}
	t.users++
	l.mu.Unlock()
	select {
	case t.token <- struct{}{}:
		return func() { <-t.token; l.leave(key, t) }, nil
	case <-ctx.Done():
		l.leave(key, t)
		return nil, context.Cause(ctx)
	}
}

// Try takes a key if nobody holds or wants it.
func (l *Locks) Try(key string) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[key] != nil {
		return nil, false
	}
	t := &turn{token: make(chan struct{}, 1), users: 1}
	t.token <- struct{}{}
	l.held[key] = t
	return func() { <-t.token; l.leave(key, t) }, true
}

func (l *Locks) leave(key string, t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.users--
	if t.users == 0 {
		delete(l.held, key)
	}
}
