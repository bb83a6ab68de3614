package vswitch

import (
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"
)

// events wakes who waits when the monitor reports a change. It runs on the connection's goroutine and must
// not block.
type events struct{ c *Client }

// OnAdd is called for every row after a new connection, too.
func (e events) OnAdd(_ string, row model.Model) {
	switch r := row.(type) {
	case *rootRow:
		signal(e.c.changed)
		signal(e.c.rewired)
		e.c.wake(anySwitch)
	case *bridgeRow:
		if r.Name == e.c.bridge {
			signal(e.c.changed)
		}
	case *interfaceRow:
		e.c.tell(r)
	}
}

// OnUpdate is called when a monitored column changed.
func (e events) OnUpdate(_ string, before, row model.Model) {
	switch r := row.(type) {
	case *rootRow:
		// It also changes with each port that comes or goes.
		if old, ok := before.(*rootRow); !ok || !maps.Equal(old.ExternalIDs, r.ExternalIDs) {
			signal(e.c.rewired)
		}
		e.c.wake(anySwitch)
	case *bridgeRow:
		if old, ok := before.(*bridgeRow); r.Name == e.c.bridge && (!ok || !slices.Equal(old.Controllers, r.Controllers)) {
			signal(e.c.changed)
		}
	case *interfaceRow:
		e.c.tell(r)
	}
}

// OnDelete is called when a row went.
func (e events) OnDelete(_ string, row model.Model) {
	if r, ok := row.(*interfaceRow); ok {
		e.c.tell(r)
	}
}

// tell tells whoever a change of an interface concerns.
func (c *Client) tell(r *interfaceRow) {
	if _, tunnel := tunnelPorts[r.Type]; tunnel {
		signal(c.rewired)
	}
	c.wake(r.Name)
}

// signal leaves a value for whoever reads from to. One that is still unread is enough.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// wake tells everyone who waits for an interface to look again. A wake-up that is still unread is enough.
func (c *Client) wake(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.waiting[name] {
		signal(w)
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
