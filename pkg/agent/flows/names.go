package flows

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

const (
	// askAge is the age at which the southbound database is read again because something is unknown. A read costs the server a look
	// at each logical flow that judges. askAgeNow is the same while a person waits.
	askAge    = 10 * time.Second
	askAgeNow = 2 * time.Second
)

// names say whose records are.
type names struct {
	known  ovsdb.Sampled
	readAt time.Time
	// missed: something was unknown since.
	missed bool
	// unread is why the southbound database was not read the last time; nil when it was.
	unread error
}

// learn takes in what the database has. Earlier names stay as long as the store has rows with them: a policy that is gone still
// decided what it decided.
func (n *names) learn(found ovsdb.Sampled, s *store, now time.Time) {
	points := map[uint32]bool{}
	for _, h := range s.switches {
		for _, m := range h.minutes {
			for k := range m.rows {
				points[k.point] = true
			}
		}
	}
	maps.DeleteFunc(n.known.Points, func(p uint32, _ nb.Origin) bool { return !points[p] })
	maps.DeleteFunc(n.known.Switches, func(d uint32, _ string) bool { return s.switches[d] == nil })
	if n.known.Points == nil {
		n.known = ovsdb.Sampled{Points: map[uint32]nb.Origin{}, Switches: map[uint32]string{}}
	}
	maps.Copy(n.known.Points, found.Points)
	maps.Copy(n.known.Switches, found.Switches)
	n.known.Ports = found.Ports
	n.readAt, n.missed, n.unread = now, false, nil
}

// unknown is an ErrUnnamed while something is unknown because the southbound database cannot be read; else nil.
func (n *names) unknown() error {
	if !n.missed || n.unread == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnnamed, n.unread)
}

// network is the Network of a datapath; empty for an unknown one.
func (n *names) network(datapath uint32) string {
	name, known := n.known.Switches[datapath]
	n.missed = n.missed || !known
	if end := strings.IndexAny(name, "/:"); end >= 0 {
		name = name[:end]
	}
	return name
}

// origin is what decided; false for what is not known, and for what cannot have decided in the Network.
func (n *names) origin(point uint32, network string) (nb.Origin, bool) {
	origin, known := n.known.Points[point]
	n.missed = n.missed || !known
	if origin.Network != "" && origin.Network != network {
		return nb.Origin{}, false
	}
	return origin, known
}
