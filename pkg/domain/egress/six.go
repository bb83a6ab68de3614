package egress

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// SixOnly is what becomes of the rules for a Network that has addresses of IPv6 alone: where the cluster has names and API by IPv4 alone,
// its pods find them at addresses of the porthole's own.
func (r Rules) SixOnly() Rules {
	if len(r.DNS) > 0 && !model.HasIPv6(r.DNS) {
		r.DNS = append(slices.Clone(r.DNS), model.NamesAddress6())
	}
	is6 := func(a netip.AddrPort) bool { return a.Addr().Is6() }
	if len(r.API) == 0 || slices.ContainsFunc(r.API, is6) || r.Infra == model.InfraNone {
		return r
	}
	at := netip.AddrPortFrom(model.APIAddress6(), r.API[0].Port())
	if slices.ContainsFunc(r.Servers, is6) {
		// Packets can go there as they are.
		r.API = append(slices.Clone(r.API), at)
		return r
	}
	r.Relayed = []netip.AddrPort{at}
	return r
}
