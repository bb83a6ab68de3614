package drain

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// vanished remembers which pods virtual addresses lead to by TCP, and which of these have gone without a word.
//
// A connection stays with its endpoint, whatever the virtual address says now, since connection tracking leads its packets. When
// a pod ends, it tells its clients. When it is deleted by force, or its node has gone, nobody does: the node goes on to lead
// the client's packets to where nobody is, and those of a new connection from the same port, too. So such an endpoint is put into
// a load balancer where no packet meets it, and is taken out of that. Then nodes forget who was led there. (See draining.)
type vanished struct {
	owners map[nb.Owner]map[Backend]parting
	timers *pass.Timers[nb.Owner]
	places places
}

// places counts the backends that have gone, which nodes are to forget: those of each owner, those of each tenant, and all.
type places struct {
	owners  map[nb.Owner]placesOf
	tenants map[string]int
	all     int
}

// placesOf are an owner's places, which count for a tenant.
type placesOf struct {
	tenant string
	taken  int
}

// take takes a place for an owner, and reports whether there was one. With force there always is one.
func (p *places) take(owner nb.Owner, tenant string, force bool) bool {
	taken := p.tenants[tenant]
	if !force && (taken >= maxVanishedOfTenant || p.all >= maxVanished || taken > 0 && p.all >= maxVanished-keptForFirst) {
		return false
	}
	p.owners[owner] = placesOf{tenant, p.owners[owner].taken + 1}
	p.tenants[tenant]++
	p.all++
	return true
}

// leave gives back all places of an owner.
func (p *places) leave(owner nb.Owner) {
	of := p.owners[owner]
	delete(p.owners, owner)
	p.all -= of.taken
	if p.tenants[of.tenant] -= of.taken; p.tenants[of.tenant] == 0 {
		delete(p.tenants, of.tenant)
	}
}

// Backend is a pod's address that a port of virtual addresses leads to by TCP. A pod that is made anew has another UID.
type Backend struct {
	Pod     model.PodKey
	UID     string
	Port    uint16
	Address netip.AddrPort
}

func (b Backend) compare(o Backend) int {
	return cmp.Or(cmp.Compare(b.Port, o.Port), b.Address.Compare(o.Address), b.Pod.Compare(o.Pod), cmp.Compare(b.UID, o.UID))
}

// reached is what connection tracking knows of a backend.
type reached struct {
	port    uint16
	address netip.AddrPort
}

func (b Backend) reached() reached { return reached{b.Port, b.Address} }

// parting is how a pod goes. Its clients are told if it was seen to end before it had gone.
type parting struct {
	told, gone bool
	since      time.Time
}

func newVanished() vanished {
	return vanished{
		owners: map[nb.Owner]map[Backend]parting{}, timers: pass.NewTimers[nb.Owner](), places: places{
			owners: map[nb.Owner]placesOf{}, tenants: map[string]int{},
		},
	}
}

// What a backend goes through that has vanished, by the time since: it is in the load balancer until it is forgotten, and once more, for
// nodes that were late. All wait for a full second, so that what many Services have lost goes in one transaction.
const (
	forgottenFirst = time.Second
	listedLate     = 3 * time.Second
	forgottenLate  = 5 * time.Second
)

// How many backends are in the load balancer, or will be once more, at a time: of all tenants, and of one. For each of them each
// node looks at all connections that it tracks, which takes Open vSwitch 30 ms with 70,000. Others wait until there is room. The
// last places are for tenants that have none.
const (
	maxVanished         = 64
	maxVanishedOfTenant = 16
	keptForFirst        = 32
	// maxWaiting is how many backends of an owner wait for a place. Clients of those beyond need another port, as they would if
	// nodes forgot nobody.
	maxWaiting = 256
)

// fullSecond is the first full second that does not come before a time.
func fullSecond(at time.Time) time.Time {
	if full := at.Truncate(time.Second); full.Before(at) {
		return full.Add(time.Second)
	}
	return at
}

// stands says whether a backend that has gone is in the load balancer, and when that changes by itself; zero: never.
func (p parting) stands(at time.Time) (in bool, until time.Time) {
	for _, passed := range []time.Duration{forgottenFirst, listedLate, forgottenLate} {
		in = !in
		if until = fullSecond(p.since.Add(passed)); at.Before(until) {
			return in, until
		}
	}
	return false, time.Time{}
}

// look notes which backends an owner's virtual addresses have now, and whether they are ending, and returns those that nodes are to forget.
// They count for the tenant. there reports whether a backend's pod is still there, which leaves its connections to it.
func (v *vanished) look(owner nb.Owner, tenant string, now map[Backend]bool, there func(Backend) bool, at time.Time) []Backend {
	was, next := v.owners[owner], make(map[Backend]parting, len(now))
	used := map[reached]bool{}
	for b, ending := range now {
		next[b] = parting{told: ending || was[b].told}
		used[b.reached()] = true
	}
	var leaving []Backend
	for b, p := range was {
		switch _, is := now[b]; {
		case is || p.told:
		case !p.gone && there(b):
			next[b] = p
			used[b.reached()] = true
		default:
			leaving = append(leaving, b)
		}
	}
	// Those that have their room come first.
	slices.SortFunc(leaving, func(a, b Backend) int {
		if was[a].gone != was[b].gone {
			return map[bool]int{true: -1, false: 1}[was[a].gone]
		}
		return a.compare(b)
	})
	v.places.leave(owner)
	var list []Backend
	var due time.Time
	waiting := 0
	for _, b := range leaving {
		p := was[b]
		if used[b.reached()] {
			continue
		}
		first := !p.gone
		if first {
			p.gone, p.since = true, at
		}
		in, until := p.stands(at)
		if until.IsZero() {
			continue
		}
		if !v.places.take(owner, tenant, !first) {
			if waiting++; waiting > maxWaiting {
				continue
			}
			next[b], due = was[b], pass.Earlier(due, fullSecond(at.Add(forgottenFirst)))
			continue
		}
		next[b], due = p, pass.Earlier(due, until)
		used[b.reached()] = true
		if in {
			list = append(list, b)
		}
	}
	v.note(owner, next, due)
	return list
}

func (v *vanished) note(owner nb.Owner, backends map[Backend]parting, due time.Time) {
	delete(v.owners, owner)
	if len(backends) > 0 {
		v.owners[owner] = backends
	}
	v.timers.Set(owner, due)
}

// forget drops an owner that has no virtual addresses any more.
func (v *vanished) forget(owner nb.Owner) {
	v.places.leave(owner)
	v.note(owner, nil, time.Time{})
}
