package controller

import (
	"net/netip"
	"time"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// departures remember where virtual addresses lead by UDP, and what they led to a short while ago.
//
// A client that sends from one port all the time stays with an endpoint that takes nothing new: connection tracking leads its
// packets, until nodes forget that client. They do when an endpoint goes out of a load balancer that has ct_flush, at the moment
// at which they change their flows. That is too early for a client that sends much: Open vSwitch leads packets by what it has
// cached for some milliseconds more, and so makes the connection again. An endpoint that has left is therefore put into a
// second load balancer, where no packet meets it, and taken out of that one when flows have long been changed.
type departures struct {
	now time.Time
	// of is where each owner's virtual addresses lead, or led.
	of map[nb.Owner]map[lead]departure
	timers
}

// lead is an endpoint that a port of virtual addresses leads to in a Network, by UDP.
type lead struct {
	network  string
	port     uint16
	endpoint netip.AddrPort
}

// departure says since when a lead is none any more.
type departure struct {
	left  bool
	since time.Time
}

func newDepartures() departures {
	return departures{of: map[nb.Owner]map[lead]departure{}, timers: newTimers()}
}

// What an endpoint that has left goes through, by the time since. It is in the second load balancer from listed to forgotten,
// and once more, for nodes that were late, from listedAgain to forgottenAgain or until it serves nobody.
const (
	listed         = 200 * time.Millisecond
	forgotten      = time.Second
	listedAgain    = 2 * time.Second
	forgottenAgain = 4 * time.Second
)

// standing says whether an endpoint is in the second load balancer so long after it left, and when that changes by itself;
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

// look notes where an owner's virtual addresses lead now, and returns what nodes are to be told to forget: what is in the
// second load balancer. Those in going still serve without getting anything new; of one that was not seen to leave, nobody
// knows since when.
func (d *departures) look(owner nb.Owner, leads, going map[lead]struct{}) map[lead]struct{} {
	was, now, list := d.of[owner], make(map[lead]departure, len(leads)), map[lead]struct{}{}
	var due time.Time
	for l := range leads {
		now[l] = departure{}
	}
	for l, before := range was {
		if _, leads := leads[l]; leads {
			continue
		}
		if !before.left {
			before = departure{left: true, since: d.now}
		}
		_, serves := going[l]
		in, until := standing(d.now.Sub(before.since), serves)
		if in {
			list[l] = struct{}{}
		}
		if until > 0 {
			now[l] = before
			due = earlier(due, before.since.Add(until))
		}
	}
	for l := range going {
		_, seen := was[l]
		// Another slice may say that it is ready.
		if _, leads := leads[l]; !seen && !leads {
			list[l] = struct{}{}
		}
	}
	d.note(owner, now, due)
	return list
}

// forget drops an owner that has no virtual addresses any more.
func (d *departures) forget(owner nb.Owner) { d.note(owner, nil, time.Time{}) }

func (d *departures) note(owner nb.Owner, of map[lead]departure, due time.Time) {
	delete(d.of, owner)
	if len(of) > 0 {
		d.of[owner] = of
	}
	d.set(owner, due)
}

// departFromService replaces the endpoints that have been left by those whose clients by UDP nodes are to forget.
func (s *State) departFromService(service model.Service, known []compile.Backends) {
	leads, going := map[lead]struct{}{}, map[lead]struct{}{}
	for at := range known {
		b := &known[at]
		for i, port := range service.Ports {
			if port.Protocol != model.UDP {
				continue
			}
			for _, e := range b.Ports[i] {
				leads[lead{b.Layout.Name, port.Port, e}] = struct{}{}
			}
			for _, e := range b.Left[i] {
				going[lead{b.Layout.Name, port.Port, e}] = struct{}{}
			}
		}
		clear(b.Left)
	}
	for l := range s.departures.look(serviceOwner(service.Key), leads, going) {
		for _, b := range known {
			if b.Layout.Name != l.network {
				continue
			}
			for i, port := range service.Ports {
				if port.Protocol == model.UDP && port.Port == l.port {
					b.Left[i] = append(b.Left[i], l.endpoint)
				}
			}
		}
	}
}

// departFromGateway says of a Gateway's ports which endpoints have been left.
func (s *State) departFromGateway(g *gateway, n *network, ports []compile.GatewayPort) {
	leads := map[lead]struct{}{}
	for _, p := range ports {
		if p.Protocol != model.UDP {
			continue
		}
		for _, part := range p.Parts {
			for _, e := range part.Endpoints {
				if part.Weight > 0 {
					leads[lead{n.name, p.Port, e}] = struct{}{}
				}
			}
		}
	}
	for l := range s.departures.look(nb.GatewayOwner(g.Key.Namespace, g.Key.Name), leads, nil) {
		for i, p := range ports {
			if l.network == n.name && p.Protocol == model.UDP && p.Port == l.port {
				ports[i].Left = append(ports[i].Left, l.endpoint)
			}
		}
	}
}
