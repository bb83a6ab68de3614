package networks

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// delta is what a Network gets, or loses, of what has ovn-northd compute everything anew. The other fields of a Network cost little.
type delta struct {
	// subnets, ranges and peers: some of them are added.
	subnets, ranges, peers bool
	// ends: some of any go.
	ends bool
}

func (d delta) adds() bool { return d.subnets || d.ranges || d.peers }

// keep compares a Network as it was taken in with the Network as its owner wants it. It returns the latter without what it adds:
// what it takes away has gone, so no Network stays open for others because its tenant changes Networks too often. before is nil
// for a new Network.
//
// What it returns allows no more than either of the two. Agents and the nodes' DNS go by what owners write, without waiting: they
// are ahead of OVN's rows, as they are while no controller runs.
func (s *Stage) keep(before, now *model.Network) (*model.Network, delta) {
	var (
		d    delta
		had  model.Network
		list []model.Subnet
	)
	if before != nil {
		had, list = *before, s.listed(before)
	}
	kept := *now
	note := func(part *bool, adds, ends bool) { *part, d.ends = *part || adds, d.ends || ends }

	subnets, adds, ends := keepSubnets(list, s.listed(now))
	note(&d.subnets, adds, ends)
	if adds {
		kept.Subnets = subnets
	}
	kept.ServiceCIDRs, adds, ends = keepOf(had.ServiceCIDRs, now.ServiceCIDRs, same)
	note(&d.ranges, adds, ends)
	kept.CompatibleWith, adds, ends = keepOf(had.CompatibleWith, now.CompatibleWith, includes)
	note(&d.peers, adds, ends)
	kept.Uses, adds, ends = keepOf(had.Uses, now.Uses, same)
	note(&d.peers, adds, ends)
	kept.UsesAddressesOf, adds, ends = keepOf(had.UsesAddressesOf, now.UsesAddressesOf, same)
	note(&d.peers, adds, ends)
	kept.UsesServiceCIDRs = map[string][]netip.Prefix{}
	for provider, ranges := range now.UsesServiceCIDRs {
		// Who names a provider here uses it, whatever the ranges.
		named, was := had.UsesServiceCIDRs[provider]
		both, adds, ends := keepOf(named, ranges, same)
		note(&d.peers, adds || !was, ends)
		if was {
			kept.UsesServiceCIDRs[provider] = both
		}
	}
	for provider := range had.UsesServiceCIDRs {
		_, still := now.UsesServiceCIDRs[provider]
		note(&d.peers, false, !still)
	}
	return &kept, d
}

// keepOf returns those of now that some of before includes. adds: there are others. ends: before has some that none of now includes.
func keepOf[T any](before, now []T, includes func(one, other T) bool) (kept []T, adds, ends bool) {
	without := func(all []T) func(T) bool {
		return func(t T) bool { return !slices.ContainsFunc(all, func(one T) bool { return includes(one, t) }) }
	}
	kept = slices.DeleteFunc(slices.Clone(now), without(before))
	return kept, len(kept) < len(now), slices.ContainsFunc(before, without(now))
}

func same[T comparable](a, b T) bool { return a == b }

// includes reports whether an entry of compatibleWith allows all that another entry does.
func includes(one, other model.CompatiblePeer) bool {
	if !one.All && (one.Network != other.Network || one.Tenant != other.Tenant || other.All) {
		return false
	}
	routed := other.Mode == model.Routed
	if one.Mode == model.Routed {
		return routed || !other.Addresses
	}
	return !routed && (one.Addresses || !other.Addresses)
}

// listed are the subnets that a Network asks for. One that lists none gets the cluster's default one.
func (s *Stage) listed(m *model.Network) []model.Subnet {
	if len(m.Subnets) > 0 {
		return m.Subnets
	}
	return []model.Subnet{{Name: compile.DefaultSubnetName, CIDRs: []netip.Prefix{s.Cluster.Subnet}}}
}

// keepSubnets is keepOf for subnets. Those that stay have the order that they had, since of two that overlap the first one is
// served; another order is something added. Of those that are added only the names are kept.
func keepSubnets(before, now []model.Subnet) (kept []model.Subnet, adds, ends bool) {
	var places []int
	for _, had := range before {
		i := slices.IndexFunc(now, func(wants model.Subnet) bool { return sameRows(had, wants) })
		switch {
		case i >= 0:
			places, kept = append(places, i), append(kept, now[i])
		case had.Error == "" && !had.Waits:
			ends = true
		}
	}
	adds = !slices.IsSorted(places)
	for i, wants := range now {
		switch {
		case slices.Contains(places, i):
		case wants.Error != "":
			kept = append(kept, wants)
		default:
			kept, adds = append(kept, model.Subnet{Name: wants.Name, Waits: true}), true
		}
	}
	return kept, adds, ends
}

// sameRows reports whether two subnets are the same in OVN.
func sameRows(a, b model.Subnet) bool {
	return a.Name == b.Name && slices.Equal(a.CIDRs, b.CIDRs) && slices.Equal(a.Gateways, b.Gateways) && a.Error == b.Error &&
		a.Waits == b.Waits
}
