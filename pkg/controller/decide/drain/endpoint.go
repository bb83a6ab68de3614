package drain

import (
	"net/netip"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// draining remembers where virtual addresses lead by UDP, and what they led to a short while ago.
//
// A client that sends from one port all the time stays with an endpoint that takes nothing new: connection tracking leads its
// packets, until nodes forget that client. They do when an endpoint goes out of a load balancer that has ct_flush, at the moment
// at which they change their flows. That is too early for a client that sends much: Open vSwitch leads packets by what it has
// cached for some milliseconds more, and so makes the connection again. An endpoint that has left is therefore put into a
// drain load balancer, where no packet meets it, and taken out of that one when flows have long been changed.
type draining struct {
	// owners are where each one's virtual addresses lead, or led.
	owners map[nb.Owner]map[Endpoint]departure
	timers *pass.Timers[nb.Owner]
}

// Endpoint is one that a port of virtual addresses leads to in a Network, by UDP.
type Endpoint struct {
	Network string
	Port    uint16
	Address netip.AddrPort
}

// departure says since when virtual addresses lead to an endpoint no more.
type departure struct {
	left  bool
	since time.Time
}

func newDraining() draining {
	return draining{owners: map[nb.Owner]map[Endpoint]departure{}, timers: pass.NewTimers[nb.Owner]()}
}

// What an endpoint that has left goes through, by the time since. It is in the drain load balancer from listed to forgotten,
// and once more, for nodes that were late, from listedAgain to forgottenAgain or until it serves nobody.
const (
	listed         = 200 * time.Millisecond
	forgotten      = time.Second
	listedAgain    = 2 * time.Second
	forgottenAgain = 4 * time.Second
)

// standing says whether an endpoint is in the drain load balancer so long after it left, and when that changes by itself;
// 0: never. serves: it still answers those who know it.
func standing(passed time.Duration, serves bool) (in bool, until time.Duration) {
	switch {
	case passed < listed:
		return false, listed
	case passed < forgotten:
		return true, forgotten
	case passed < listedAgain:
		return false, listedAgain
	case passed < forgottenAgain:
		return true, forgottenAgain
	}
	return serves, 0
}

// look notes where an owner's virtual addresses lead now, and returns what is in the drain load balancer. Of an endpoint in
// serving that was not seen to leave, nobody knows since when.
func (d *draining) look(owner nb.Owner, leads, serving map[Endpoint]struct{}, at time.Time) map[Endpoint]struct{} {
	was, now, list := d.owners[owner], make(map[Endpoint]departure, len(leads)), map[Endpoint]struct{}{}
	var due time.Time
	for e := range leads {
		now[e] = departure{}
	}
	for e, before := range was {
		if _, leads := leads[e]; leads {
			continue
		}
		if !before.left {
			before = departure{left: true, since: at}
		}
		_, serves := serving[e]
		in, until := standing(at.Sub(before.since), serves)
		if in {
			list[e] = struct{}{}
		}
		if until > 0 {
			now[e] = before
			due = pass.Earlier(due, before.since.Add(until))
		}
	}
	for e := range serving {
		_, seen := was[e]
		// Another slice may say that it is ready.
		if _, leads := leads[e]; !seen && !leads {
			list[e] = struct{}{}
		}
	}
	d.note(owner, now, due)
	return list
}

func (d *draining) note(owner nb.Owner, endpoints map[Endpoint]departure, due time.Time) {
	delete(d.owners, owner)
	if len(endpoints) > 0 {
		d.owners[owner] = endpoints
	}
	d.timers.Set(owner, due)
}
