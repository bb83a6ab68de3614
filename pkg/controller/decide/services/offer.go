package services

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// offer decides how the Networks that use the one of a Service's namespace know the Service: by rows that they share, which lead
// to the faces of its pods, or to their own addresses for those that are joined to the Network; or, if it has endpoints in any of
// them, or in a third Network that any of them reaches by itself, each by its own, which lead to these, too. The same virtual
// address in two rows of one switch would be either of them. So the shared rows stay, and lead nowhere then.
//
// They know what the Network itself knows as its own: not what leads into it from elsewhere. That the Network reaches a third one
// is nothing to them: they are led there if they reach it, too.
func (l look) offer(
	service *model.Service, ns model.Namespace, home Network, endpoints []resolved,
) (apart []string, shared []compile.Backends) {
	if service == nil || !l.offers(home, ns) {
		return nil, nil
	}
	idle := l.leadsApart(home, endpoints)
	if idle {
		apart = home.Consumers
	}
	for _, way := range home.Ways {
		b := l.backends(*service, known(home, way), "", endpoints)
		if b.Idle = idle; !way.ByClusterIPs() {
			b.VIPs = l.offeredIn(home)
		}
		shared = append(shared, b)
	}
	return apart, shared
}

// offeredIn are the virtual addresses of its own that a Service has in a Network, and that others may dial.
func (l look) offeredIn(home Network) []netip.Addr {
	return home.Offered(l.addressesIn(home))
}

// leadsApart reports whether a Service of a Network leads any of its consumers elsewhere than to the Network's own pods.
func (l look) leadsApart(home Network, endpoints []resolved) bool {
	elsewhere := map[string]struct{}{}
	for _, e := range endpoints {
		if e.network != "" && e.network != home.Name {
			elsewhere[e.network] = struct{}{}
		}
	}
	for other := range elsewhere {
		if slices.Contains(home.Consumers, other) ||
			slices.ContainsFunc(home.Consumers, func(c string) bool { return l.network(c).uses(other) }) {
			return true
		}
	}
	return false
}

// offers reports whether the Network of a namespace offers the Service to others. The cluster's DNS Service is never offered:
// each Network decides for itself what its address means.
func (l look) offers(home Network, ns model.Namespace) bool {
	return home.Serves && home.offers() && l.admits(home, ns) && l.service != l.world.Cluster.DNS
}

// known is a Network as others know it in some way (compile.Peers.Ways), as one in which Services lead somewhere: to its pods.
func known(home Network, way compile.Layout) Network {
	isHome := func(network string) bool { return network == home.Name }
	out := Network{Name: way.Name, Layout: way, Uses: isHome}
	if way.ByOwnAddresses() {
		out.Joined = isHome
	}
	return out
}

// OfferedEndpoints are those that a port of a Service, by its place there, would lead to for the Networks that know this one in
// some way: of its own pods, and of no others that its own clients reach.
func (s *Stage) OfferedEndpoints(service *model.Service, port int, network string, way compile.Layout) []netip.AddrPort {
	ns, n := s.world.Cluster.Namespaces[service.Key.Namespace], s.world.Networks.Network(network)
	if ns == nil || !n.Serves || !n.offers() || !s.admits(n, *ns) || !s.served(service) {
		return nil
	}
	return s.backends(*service, known(n, way), "", bounded(service, s.look(service.Key).resolve(*ns))).Ports[port]
}
