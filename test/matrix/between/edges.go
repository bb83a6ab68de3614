package between

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Known is a Network, and when it was made: of two things that exclude each other the older one has it.
type Known struct {
	Network
	Created time.Time
}

// Edge says that pods of the consumer reach those of the provider.
type Edge struct{ Provider, Consumer string }

// Edges are who reaches whom among Networks. Routed: their routers are joined, so that pods are reached by their own addresses, too.
func Edges(networks []Known) (routed map[Edge]bool) {
	older := slices.Clone(networks)
	slices.SortFunc(older, func(a, b Known) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	// Whatever the mode: both want it, the provider's Services have addresses that nobody else has among what the consumer knows.
	wanted := map[Edge]bool{}
	services := map[string][]netip.Prefix{}
	for _, consumer := range older {
		for _, provider := range older {
			asks, join := provider.offers(consumer)
			if provider.Name == consumer.Name || !asks || overlap(provider.Plan.Services, consumer.Plan.ranges()) || overlap(provider.Plan.Services, services[consumer.Name]) {
				continue
			}
			wanted[Edge{provider.Name, consumer.Name}] = join
			services[consumer.Name] = append(services[consumer.Name], provider.Plan.Services...)
		}
	}
	joined := join(older, wanted)
	routed = map[Edge]bool{}
	for e, join := range wanted {
		if with := joined[e.pair()]; with || !join {
			routed[e] = with
		}
	}
	return routed
}

// offers reports whether a provider serves a consumer, which has to use it if it is another tenant's, and whether they are to be joined: which
// another tenant's has to want as well.
func (n Known) offers(consumer Known) (asks, join bool) {
	foreign := n.Tenant != consumer.Tenant
	if foreign && !slices.Contains(consumer.Uses, n.Name) {
		return false, false
	}
	asks, join = n.names(consumer)
	if _, wants := consumer.names(n); foreign {
		join = join && wants
	}
	return asks, join
}

// names reports whether a Network is compatible with another by what it says, and whether it asks to be joined to it. All means those of other
// tenants that use it.
func (n Known) names(other Known) (asks, join bool) {
	for _, p := range n.CompatibleWith {
		all := p.All && (n.Tenant == other.Tenant || slices.Contains(other.Uses, n.Name))
		if all || p.Network == other.Name || p.Tenant != "" && p.Tenant == other.Tenant {
			asks, join = true, join || p.Routed
		}
	}
	return asks, join
}

// pair are the two, without a direction.
func (e Edge) pair() Edge { return Edge{min(e.Provider, e.Consumer), max(e.Provider, e.Consumer)} }

// join are the pairs whose routers are joined: of those that want it, the older first, all whose addresses mean one thing in both. older are all
// Networks by age; a pair is as old as the younger of the two.
func join(older []Known, wanted map[Edge]bool) map[Edge]bool {
	joined := map[Edge]bool{}
	for _, p := range pairs(older) {
		a, b := p[0], p[1]
		there, here := Edge{a.Name, b.Name}, Edge{b.Name, a.Name}
		if (wanted[there] || wanted[here]) && !overlap(a.Plan.ranges(), b.Plan.ranges()) &&
			!overlap(a.Plan.ranges(), knows(older, b, a, joined, wanted)) && !overlap(b.Plan.ranges(), knows(older, a, b, joined, wanted)) {
			joined[there.pair()] = true
		}
	}
	return joined
}

// pairs are all pairs, the older first, those of one age by their names.
func pairs(older []Known) (out [][2]Known) {
	for i, a := range older {
		for _, b := range older[:i] {
			out = append(out, [2]Known{a, b})
		}
	}
	slices.SortStableFunc(out, func(x, y [2]Known) int {
		p, q := Edge{x[0].Name, x[1].Name}.pair(), Edge{y[0].Name, y[1].Name}.pair()
		return cmp.Or(x[0].Created.Compare(y[0].Created), cmp.Compare(p.Provider, q.Provider), cmp.Compare(p.Consumer, q.Consumer))
	})
	return out
}

// knows are the addresses that mean something to a Network beside its own and those of one other: those of all that it is joined to, and those of
// the Services of all whose pods its own reach.
func knows(all []Known, n, but Known, joined, wanted map[Edge]bool) (out []netip.Prefix) {
	for _, third := range all {
		if third.Name == but.Name {
			continue
		}
		if joined[Edge{third.Name, n.Name}.pair()] {
			out = append(out, third.Plan.ranges()...)
		}
		if _, reached := wanted[Edge{third.Name, n.Name}]; reached {
			out = append(out, third.Plan.Services...)
		}
	}
	return out
}

func overlap(some, others []netip.Prefix) bool {
	return slices.ContainsFunc(some, func(p netip.Prefix) bool { return slices.ContainsFunc(others, p.Overlaps) })
}
