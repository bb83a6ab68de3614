package gateways

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// offer gives the rows by which the Networks that use a Gateway's one know it: at those of its addresses that mean the same
// there, leading to the faces or the own addresses of the Network's pods. An address of the ranges that all Networks have for
// their Gateways may be another Gateway's there.
func (s *Stage) offer(g *gateway) nb.Facts {
	addresses := s.Networks.Offered(g.network, g.addresses)
	if len(addresses) == 0 {
		return nb.Facts{}
	}
	var facts nb.Facts
	for _, way := range s.Networks.Ways(g.network) {
		if way.ByClusterIPs() {
			continue
		}
		facts.Add(compile.Gateway(*g.Gateway,
			way, addresses, s.portsOf(g, func(service *model.Service, port int, network string) []netip.AddrPort {
				return s.Services.OfferedEndpoints(service, port, network, way)
			})))
	}
	return facts
}
