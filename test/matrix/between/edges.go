package between

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Known is a Network, and when it was made: of two things that exclude each other the older one has it. Since is when it got its
// ranges, where that is not when it was made.
type Known struct {
	Network
	Created time.Time
	Since   map[netip.Prefix]time.Time
}

// had reports whether a Network had a range before another one had one of its own.
func (n Known) had(r netip.Prefix, o Known, s netip.Prefix) bool {
	since := func(n Known, r netip.Prefix) time.Time {
		if at, later := n.Since[r]; later {
			return at
		}
		return n.Created
	}
	return cmp.Or(since(n, r).Compare(since(o, s)), n.Created.Compare(o.Created), cmp.Compare(n.Name, o.Name)) < 0
}

// takes reports whether any of some ranges that a Network has is what another had first.
func (n Known) takes(ranges []netip.Prefix, o Known, others []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool {
		return slices.ContainsFunc(others, func(t netip.Prefix) bool { return t.Overlaps(r) && o.had(t, n, r) })
	})
}

// Edge says that pods of the consumer reach those of the provider.
type Edge struct{ Provider, Consumer string }

// Edges are who reaches whom among Networks. Routed: their routers are joined, so that pods are reached by their own addresses, too.
func Edges(networks []Known) (routed map[Edge]bool) {
	// Whatever the mode and whatever their addresses: both want it.
	wanted := map[Edge]bool{}
	for _, consumer := range networks {
		for _, provider := range networks {
			if asks, join := provider.offers(consumer); provider.Name != consumer.Name && asks {
				wanted[Edge{provider.Name, consumer.Name}] = join
			}
		}
	}
	joined := join(networks, wanted)
	routed = map[Edge]bool{}
	for e, join := range wanted {
		if with := joined[e.pair()]; with || !join {
			routed[e] = with
		}
	}
	return routed
}

// offers reports whether a provider serves a consumer, which has to use it if it is another tenant's, and whether they are to be
// joined: which another tenant's has to want as well, and both have to agree to what addresses the other has.
func (n Known) offers(consumer Known) (asks, join bool) {
	foreign := n.Tenant != consumer.Tenant
	if foreign && !consumer.uses(n) {
		return false, false
	}
	asks, join = n.names(consumer)
	if _, wants := consumer.names(n); foreign {
		join = join && wants && n.agrees(consumer) && consumer.agrees(n)
	}
	return asks, join
}

// agrees reports whether a Network that is to be joined to another tenant's names all of its ranges that it need not expect: of
// the world, and of Services that it is to dial.
func (n Known) agrees(other Known) bool {
	ranges := other.worldwide()
	if serves, _ := other.names(n); serves && n.uses(other) {
		ranges = append(ranges, other.Plan.Services...)
	}
	return n.namesAll(other, ranges)
}

// worldwide are the ranges of its pods that are not for private use.
func (n Known) worldwide() []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(n.Plan.Subnet), func(r netip.Prefix) bool { return r.Addr().IsPrivate() })
}

// namesAll reports whether a Network names all of some ranges of another's.
func (n Known) namesAll(other Known, ranges []netip.Prefix) bool {
	return !slices.ContainsFunc(ranges, func(r netip.Prefix) bool {
		return !slices.ContainsFunc(n.UsesServiceCIDRs[other.Name],
			func(named netip.Prefix) bool { return named.Bits() <= r.Bits() && named.Overlaps(r) })
	})
}

// names reports whether a Network is compatible with another by what it says, and whether it asks to be joined to it. All means
// those of other tenants that use it.
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
	return slices.Contains(n.Uses, other.Name) || slices.Contains(n.UsesAddressesOf, other.Name) || n.UsesServiceCIDRs[other.Name] != nil
}

// claim is what a consumer's pods are to dial by addresses of a provider's, by face: its pods, or its Services. Both want it.
type claim struct {
	provider Known
	services bool
	ranges   []netip.Prefix
}

// claims are those of a consumer, of edges without mode Routed.
func claims(all []Known, consumer Known, edges map[Edge]bool) (out []claim) {
	for _, provider := range all {
		if routed, there := edges[Edge{provider.Name, consumer.Name}]; !there || routed {
			continue
		}
		same := provider.Tenant == consumer.Tenant
		if own := provider.Plan.Services; len(own) > 0 && (same || consumer.namesAll(provider, own)) {
			out = append(out, claim{provider, true, own})
		}
		offered := slices.ContainsFunc(provider.CompatibleWith, func(p Peer) bool { return p.Addresses && provider.means(p, consumer) })
		if offered && (same || slices.Contains(consumer.UsesAddressesOf, provider.Name) && consumer.namesAll(provider, provider.worldwide())) {
			out = append(out, claim{provider, false, provider.Plan.Subnet})
		}
	}
	return out
}

// Dialled are those of the edges on which a consumer's pods dial the provider's by their own addresses, and Ranged those on which
// they dial its Services by addresses of its own ranges: where routers are joined; and where the provider offers it, the
// consumer, if it is another tenant's, wants it, for Services and for what is somebody's in the world in these very ranges, and
// none of the addresses means anything else to the consumer. Of two providers with the same addresses it is the one that had them
// first.
func Dialled(networks []Known) map[Edge]bool { return dial(networks, false) }

// Ranged: see Dialled.
func Ranged(networks []Known) map[Edge]bool { return dial(networks, true) }

func dial(networks []Known, services bool) map[Edge]bool {
	edges, out := Edges(networks), map[Edge]bool{}
	for _, consumer := range networks {
		taken := consumer.Plan.ranges()
		for _, other := range networks {
			there := Edge{other.Name, consumer.Name}
			if edges[there] || edges[Edge{consumer.Name, other.Name}] {
				taken = append(taken, other.Plan.ranges()...)
			}
			if edges[there] && (!services || len(other.Plan.Services) > 0) {
				out[there] = true
			}
		}
		all := claims(networks, consumer, edges)
		for _, c := range all {
			if c.services == services && !overlap(c.ranges, taken) && !slices.ContainsFunc(all, func(o claim) bool {
				return o.provider.Name != c.provider.Name && c.provider.takes(c.ranges, o.provider, o.ranges)
			}) {
				out[Edge{c.provider.Name, consumer.Name}] = true
			}
		}
	}
	return out
}

// pair are the two, without a direction.
func (e Edge) pair() Edge { return Edge{min(e.Provider, e.Consumer), max(e.Provider, e.Consumer)} }

// join are the pairs whose routers are joined: of those that want it, all whose addresses mean one thing in both, or who had them
// first there.
func join(all []Known, wanted map[Edge]bool) map[Edge]bool {
	could, joined := map[Edge]bool{}, map[Edge]bool{}
	for _, a := range all {
		for _, b := range all {
			there, here := Edge{a.Name, b.Name}, Edge{b.Name, a.Name}
			if (wanted[there] || wanted[here]) && !overlap(a.Plan.ranges(), b.Plan.ranges()) {
				could[there.pair()] = true
			}
		}
	}
	for _, a := range all {
		for _, b := range all {
			if p := (Edge{a.Name, b.Name}).pair(); could[p] && !taken(all, a, b, could, wanted) && !taken(all, b, a, could, wanted) {
				joined[p] = true
			}
		}
	}
	return joined
}

// taken reports whether addresses of a Network mean something else to another that would be joined to it, and that had them
// first: those of all that could be joined to that one, and what it dials of those that it reaches by face.
func taken(all []Known, n, by Known, could, wanted map[Edge]bool) bool {
	for _, third := range all {
		if third.Name != by.Name && could[Edge{third.Name, n.Name}.pair()] && by.takes(by.Plan.ranges(), third, third.Plan.ranges()) {
			return true
		}
	}
	return slices.ContainsFunc(claims(all, n, wanted), func(c claim) bool {
		return c.provider.Name != by.Name && by.takes(by.Plan.ranges(), c.provider, c.ranges)
	})
}

func overlap(some, others []netip.Prefix) bool {
	return slices.ContainsFunc(some, func(p netip.Prefix) bool { return slices.ContainsFunc(others, p.Overlaps) })
}
