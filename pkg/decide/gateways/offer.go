package gateways

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/nb"
)

// offer gives the rows by which the Networks that use a Gateway's one know it: at those of its addresses that mean the same there, leading to the
// faces of the Network's pods. An address of the ranges that all Networks have for their Gateways may be another Gateway's there.
func (s *Stage) offer(g *gateway) nb.Facts {
	ranges := s.Networks.Offered(g.network)
	addresses := slices.DeleteFunc(slices.Clone(g.addresses), func(a netip.Addr) bool {
		return !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
	})
	if len(addresses) == 0 {
		return nb.Facts{}
	}
	return compile.Gateway(*g.Gateway, compile.Offered(s.Networks.Layout(g.network)), addresses, s.portsOf(g, s.Services.OfferedEndpoints))
}
