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
		e.c.changed.Send()
		e.c.rewired.Send()
		e.c.waiting.Wake(anySwitch)
	case *bridgeRow:
		if r.Name == e.c.bridge {
			e.c.changed.Send()
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
			e.c.rewired.Send()
		}
		e.c.waiting.Wake(anySwitch)
	case *bridgeRow:
		if old, ok := before.(*bridgeRow); r.Name == e.c.bridge && (!ok || !slices.Equal(old.Controllers, r.Controllers)) {
			e.c.changed.Send()
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
		c.rewired.Send()
	}
	c.waiting.Wake(r.Name)
}

// Watch registers interest in an interface until stop is called. woken holds at most one value; whoever gets it
// looks at the cache.
func (c *Client) Watch(name string) (woken <-chan struct{}, stop func()) {
	return c.waiting.Watch(name)
}
