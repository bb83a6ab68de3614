package services

import (
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
	isHome := func(network string) bool { return network == home.Name }
	share := func(as Network) {
		as.Uses = isHome
		b := compile.Backends{Layout: as.Layout, VIPs: l.addressesIn(home), Idle: idle}
		b.Ports, b.Left = l.backends(*service, as, "", endpoints)
		shared = append(shared, b)
	}
	offered, joined := compile.Offered(home.Layout), compile.Joined(home.Layout)
	share(Network{Name: offered.Name, Layout: offered})
	if slices.ContainsFunc(home.Consumers, home.joined) {
		share(Network{Name: joined.Name, Layout: joined, Joined: isHome})
	}
	return apart, shared
}
