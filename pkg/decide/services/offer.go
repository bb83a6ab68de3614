package services

import (
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
	shared.Ports, shared.Left = l.backends(*service, Network{Name: shared.Layout.Name, Uses: func(network string) bool { return network == home.Name }}, "", endpoints)
	if slices.ContainsFunc(endpoints, func(e resolved) bool { return slices.Contains(home.Consumers, e.network) }) {
		shared.Idle = true
		apart = home.Consumers
	}
	return apart, shared
}
