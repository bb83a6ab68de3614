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
	if foreign && !consumer.uses(n) {
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
		if n.means(p, other) {
			asks, join = true, join || p.Routed
		}
	}
	return asks, join
}

// means reports whether an entry of what a Network says is about another.
func (n Known) means(p Peer, other Known) bool {
	all := p.All && (n.Tenant == other.Tenant || other.uses(n))
	return all || p.Network == other.Name || p.Tenant != "" && p.Tenant == other.Tenant
}

// uses reports whether a Network says that it wants to reach another, by whatever addresses.
func (n Known) uses(other Known) bool {
	return slices.Contains(n.Uses, other.Name) || slices.Contains(n.UsesAddressesOf, other.Name)
}

// Dialled are those of the edges on which a consumer's pods dial the provider's by their own addresses: where routers are joined; and where the
// provider offers it, the consumer, if it is another tenant's, wants it, and no address of the provider's pods means anything else to the consumer. Of
// two providers with the same addresses that is the older one.
func Dialled(networks []Known) map[Edge]bool {
	older := slices.Clone(networks)
	slices.SortFunc(older, func(a, b Known) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	edges, dialled := Edges(networks), map[Edge]bool{}
	for _, consumer := range older {
		taken := consumer.Plan.ranges()
		for _, other := range older {
			there, here := Edge{other.Name, consumer.Name}, Edge{consumer.Name, other.Name}
			if edges[there] || edges[here] {
				taken = append(taken, other.Plan.ranges()...)
			}
			if joined, reached := edges[there]; joined {
				dialled[there] = true
			} else if reached {
				taken = append(taken, other.Plan.Services...)
			}
		}
		for _, provider := range older {
			e := Edge{provider.Name, consumer.Name}
			_, reached := edges[e]
			offered := slices.ContainsFunc(provider.CompatibleWith, func(p Peer) bool { return p.Addresses && provider.means(p, consumer) })
			wanted := provider.Tenant == consumer.Tenant || slices.Contains(consumer.UsesAddressesOf, provider.Name)
			if reached && !dialled[e] && offered && wanted && !overlap(provider.Plan.Subnet, taken) {
				dialled[e] = true
				taken = append(taken, provider.Plan.Subnet...)
			}
		}
	}
	return dialled
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
