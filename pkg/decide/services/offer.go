package services

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
)

// offer decides how the Networks that use the one of a Service's namespace know the Service: by rows that they all share, which lead to
// the faces of its pods; or, if it has endpoints in any of them, each by its own, which lead to these, too. The same virtual address in two rows
// of one switch would be either of them. So the shared rows stay, and lead nowhere then.
//
// They know what the Network itself knows as its own: not what leads into it from elsewhere.
func (l look) offer(service *model.Service, ns model.Namespace, home Network, endpoints []resolved) (apart []string, shared *compile.Backends) {
	if service == nil || !home.Serves || !home.offers() || !l.admits(home, ns) {
		return nil, nil
	}
	shared = &compile.Backends{Layout: compile.Offered(home.Layout), VIPs: l.addressesIn(home)}
	shared.Ports, shared.Left = l.backends(*service, asOffered(home), "", endpoints)
	if slices.ContainsFunc(endpoints, func(e resolved) bool { return slices.Contains(home.Consumers, e.network) }) {
		shared.Idle = true
		apart = home.Consumers
	}
	return apart, shared
}

// asOffered is what others know of a Network, as one in which Services lead somewhere: to its pods, by their faces.
func asOffered(home Network) Network {
	return Network{Name: compile.Offered(home.Layout).Name, Uses: func(network string) bool { return network == home.Name }}
}

// OfferedEndpoints are those that a port of a Service, by its place there, would lead to for the Networks that use this one: of its own pods,
// and of no others that its own clients reach.
func (s *Stage) OfferedEndpoints(service *model.Service, port int, network string) []netip.AddrPort {
	ns, n := s.world.Cluster.Namespaces[service.Key.Namespace], s.world.Networks.Network(network)
	if ns == nil || !n.Serves || !n.offers() || !s.admits(n, *ns) || s.world.Quotas.Beyond(service.Key) != nil {
		return nil
	}
	lead, _ := s.backends(*service, asOffered(n), "", s.look(service.Key).resolve(*ns))
	return lead[port]
}
