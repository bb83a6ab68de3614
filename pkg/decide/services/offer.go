package services

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
)

// offer decides how the Networks that use the one of a Service's namespace know the Service: by rows that they share, which lead to
// the faces of its pods, or to their own addresses for those that are joined to the Network; or, if it has endpoints in any of them, each by
// its own, which lead to these, too. The same virtual address in two rows of one switch would be either of them. So the shared rows stay, and
// lead nowhere then.
//
// They know what the Network itself knows as its own: not what leads into it from elsewhere.
func (l look) offer(service *model.Service, ns model.Namespace, home Network, endpoints []resolved) (apart []string, shared []compile.Backends) {
	if service == nil || !home.Serves || !home.offers() || !l.admits(home, ns) {
		return nil, nil
	}
	idle := slices.ContainsFunc(endpoints, func(e resolved) bool { return slices.Contains(home.Consumers, e.network) })
	if idle {
		apart = home.Consumers
	}
	for _, way := range home.Ways {
		b := compile.Backends{Layout: way, VIPs: l.addressesIn(home), Idle: idle}
		b.Ports, b.Left = l.backends(*service, known(home, way), "", endpoints)
		shared = append(shared, b)
	}
	return apart, shared
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

// OfferedEndpoints are those that a port of a Service, by its place there, would lead to for the Networks that know this one in some way: of its own
// pods, and of no others that its own clients reach.
func (s *Stage) OfferedEndpoints(service *model.Service, port int, network string, way compile.Layout) []netip.AddrPort {
	ns, n := s.world.Cluster.Namespaces[service.Key.Namespace], s.world.Networks.Network(network)
	if ns == nil || !n.Serves || !n.offers() || !s.admits(n, *ns) || s.world.Quotas.Beyond(service.Key) != nil {
		return nil
	}
	lead, _ := s.backends(*service, known(n, way), "", s.look(service.Key).resolve(*ns))
	return lead[port]
}
