package compatible

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// subnets are what addresses of a Network's pods are from.
func (n *Networks) subnets(name string) []netip.Prefix {
	all := n.ranges[name]
	return all[:len(all)-len(n.known[name].ServiceCIDRs)]
}

// both are two things that an owner is told at once; either may be nothing. The reason is the first one's; that Services are
// offered is no trouble, and gives way.
func both(first, second model.Problem) model.Problem {
	if first.Reason == "" {
		return second
	}
	if second.Reason != "" && first.Reason == model.ReasonServiceCIDRsOffered {
		first, second = second, first
	}
	if second.Reason != "" {
		first.Message += "; " + second.Message
	}
	return first
}

// privateUse are the ranges that are for everybody's use inside (RFC 1918, RFC 6598, RFC 4193). Whatever else a Network has is
// somebody's in the world.
var privateUse = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("fc00::/7"),
}

// worldwide are the ranges of a Network's subnets, as its owner wrote them, that are not for private use alone.
func worldwide(m *model.Network) (out []netip.Prefix) {
	for _, subnet := range m.Subnets {
		for _, r := range subnet.CIDRs {
			if !within(r, privateUse) {
				out = append(out, r)
			}
		}
	}
	return out
}

// within reports whether a range lies in one of some.
func within(r netip.Prefix, some []netip.Prefix) bool {
	return slices.ContainsFunc(some, func(s netip.Prefix) bool { return s.Bits() <= r.Bits() && s.Contains(r.Addr()) })
}

// unnamed is the first of some ranges of a provider of another tenant that a consumer does not name for it.
func unnamed(consumer, provider *model.Network, ranges []netip.Prefix) (r netip.Prefix, found bool) {
	for _, r := range ranges {
		if !within(r, consumer.UsesServiceCIDRs[provider.Name]) {
			return r, true
		}
	}
	return netip.Prefix{}, false
}

// offersAddresses reports whether anything says so that a provider says of a consumer.
func offersAddresses(provider, consumer *model.Network) bool {
	return slices.ContainsFunc(provider.CompatibleWith,
		func(p model.CompatiblePeer) bool { return p.Addresses && means(p, provider, consumer) })
}

// wantsAddresses reports whether a consumer has what it sends to a provider's addresses led there, whatever these will be: its own tenant's
// it does, another's it must name. Addresses of the world it must name as well.
func wantsAddresses(consumer, provider *model.Network) bool {
	return consumer.Tenant == provider.Tenant || slices.Contains(consumer.UsesAddressesOf, provider.Name)
}

// askForAddresses notes on a provider that a consumer reaches whether its pods are to be dialled by their own addresses, or who does not
// want it.
func askForAddresses(p *peer, provider, consumer *model.Network) {
	switch offered := offersAddresses(provider, consumer); {
	case offered && wantsAddresses(consumer, provider):
		if r, found := unnamed(consumer, provider, worldwide(provider)); found && provider.Tenant != consumer.Tenant {
			why := addressesOfTheWorld(r, provider.Name, consumer.Name)
			p.problem, p.toProvider = both(p.problem, why), both(p.toProvider, why)
			return
		}
		p.addresses = true
	case offered:
		p.toProvider = both(p.toProvider, addressesNotUsed(consumer.Name))
	case slices.Contains(consumer.UsesAddressesOf, provider.Name):
		p.problem = both(p.problem, addressesNotOffered(provider.Name))
	}
}

func addressesNotUsed(consumer string) model.Problem {
	return model.Problemf(model.ReasonAddressesNotUsed,
		"%s: Network %q is another tenant's, and does not list this one in its usesAddressesOf", byFacesOnly, consumer)
}

func addressesOfTheWorld(r netip.Prefix, provider, consumer string) model.Problem {
	return model.Problemf(model.ReasonAddressesNotUsed,
		"%s: %s of Network %q is not for private use, and lies in none of the ranges that Network %q lists for it in usesServiceCIDRs",
		byFacesOnly, r, provider, consumer)
}

func addressesNotOffered(provider string) model.Problem {
	return model.Problemf(model.ReasonAddressesNotOffered,
		"%s: Network %q does not offer them in its compatibleWith", byFacesOnly, provider)
}

// Addressed are the Networks that a Network's pods know by faces, and whose pods they dial by their own addresses, too, sorted.
func (n *Networks) Addressed(consumer string) []string {
	var out []string
	for _, p := range n.peers[consumer] {
		if p.addresses && p.mode != model.Routed {
			out = append(out, p.network)
		}
	}
	slices.Sort(out)
	return out
}

// flatChanged takes note of a flat Network's addresses, which pods of all others dial, adds to touched the consumers of addresses
// when they are others than before, and reports whether they are.
func (n *Networks) flatChanged(name string, before []netip.Prefix, touched map[string]struct{}) bool {
	m := n.known[name]
	_, was := n.flats[name]
	is := m != nil && (m.Type != model.VPC || name == n.settings.Default)
	if is {
		n.flats[name] = struct{}{}
	} else {
		delete(n.flats, name)
	}
	if was == is && (!is || slices.Equal(before, n.ranges[name])) {
		return false
	}
	n.forgetEverybodys()
	n.askAgain(touched)
	return true
}

// askAgain adds all consumers of addresses.
func (n *Networks) askAgain(touched map[string]struct{}) {
	for _, consumer := range slices.Collect(maps.Keys(n.judged)) {
		if slices.ContainsFunc(n.judged[consumer], func(p peer) bool { return p.addresses || p.services }) {
			touched[consumer] = struct{}{}
		}
	}
}

// Keep says which ranges a Network has addresses of beside those that it lists: of subnets that it lists no more, and that pods
// are in still. It returns the Networks about which something else is true than before, sorted.
func (n *Networks) Keep(name string, ranges []netip.Prefix) (changed []string) {
	if slices.Equal(n.kept[name], ranges) {
		return nil
	}
	if n.kept[name] = ranges; len(ranges) == 0 {
		delete(n.kept, name)
	}
	n.keptExtents[name].forget()
	if n.keptExtents[name] = extentOf(ranges); len(ranges) == 0 {
		delete(n.keptExtents, name)
	}
	touched, told := map[string]struct{}{name: {}}, map[string]struct{}{}
	if _, is := n.flats[name]; is {
		n.forgetEverybodys()
		n.askAgain(touched)
		maps.Copy(touched, n.rejoin(told))
	}
	for consumer := range touched {
		n.settle(consumer, told)
	}
	return slices.Sorted(maps.Keys(told))
}
