package vswitch

import (
	"github.com/ovn-kubernetes/libovsdb/model"
)

// events wakes who waits when the monitor reports a change. It runs on the connection's goroutine and must
// not block.
type events struct{ c *Client }

// OnAdd is called for every row after a new connection, too.
func (e events) OnAdd(_ string, row model.Model) {
	switch r := row.(type) {
	case *rootRow:
		e.c.signalChanged()
		e.c.wake(anySwitch)
	case *bridgeRow:
		if r.Name == e.c.bridge {
			e.c.signalChanged()
		}
	case *interfaceRow:
		e.c.wake(r.Name)
	}
}

// OnUpdate is called when a monitored column changed.
func (e events) OnUpdate(_ string, _, row model.Model) {
	switch r := row.(type) {
	case *rootRow:
		e.c.wake(anySwitch)
	case *interfaceRow:
		e.c.wake(r.Name)
	}
}

// OnDelete is called when a row went.
func (e events) OnDelete(_ string, row model.Model) {
	if r, ok := row.(*interfaceRow); ok {
		e.c.wake(r.Name)
	}
}

func (c *Client) signalChanged() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// wake tells everyone who waits for an interface to look again. A wake-up that is still unread is enough.
func (c *Client) wake(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.waiting[name] {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// Watch registers interest in an interface until stop is called. woken holds at most one value; whoever gets it
// looks at the cache.
func (c *Client) Watch(name string) (woken <-chan struct{}, stop func()) {
	w := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[name] == nil {
		c.waiting[name] = map[chan struct{}]struct{}{}
	}
	c.waiting[name][w] = struct{}{}
	return w, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting[name], w)
		if len(c.waiting[name]) == 0 {
			delete(c.waiting, name)
		}
	}
}
