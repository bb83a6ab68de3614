package world

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/agent/nri"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// What pods of a Network with addresses of IPv6 alone need where the cluster has names and API by IPv4 alone: addresses of their
// family that lead there, and containers that are told of them.

// sixOnly completes the porthole of such a Network. The caller holds the lock.
func (w *World) sixOnly(spec *porthole.Spec) {
	if len(spec.DNS) > 0 && !model.HasIPv6(spec.DNS) {
		spec.DNS = append(slices.Clone(spec.DNS), model.NamesAddress6())
	}
	port, lacks := w.apiLacksIPv6()
	if !lacks || spec.Infra == model.InfraNone {
		return
	}
	at := netip.AddrPortFrom(model.APIAddress6(), port)
	if slices.ContainsFunc(spec.Cluster.Servers, func(s netip.AddrPort) bool { return s.Addr().Is6() }) {
		// Packets can go there as they are.
		spec.API = append(slices.Clone(spec.API), at)
		return
	}
	spec.Relayed = []netip.AddrPort{at}
}

// apiLacksIPv6 reports whether the API's Service has no address of IPv6, and the port of the one that it has. The caller holds the
// lock.
func (w *World) apiLacksIPv6() (port uint16, lacks bool) {
	for _, at := range w.api {
		if at.Addr().Is6() {
			return 0, false
		}
	}
	if len(w.api) == 0 {
		return 0, false
	}
	return w.api[0].Port(), true
}

// APIServers are where the API servers are reached.
func (w *World) APIServers() []netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []netip.AddrPort
	for _, servers := range w.servers {
		out = append(out, servers...)
	}
	return out
}

// Elsewhere is what a pod's containers are told by kubelet and cannot dial, with what they are to be told instead; the zero value
// when that is nothing.
func (w *World) Elsewhere(n attachment.NIC) nri.Elsewhere {
	w.mu.Lock()
	defer w.mu.Unlock()
	network := w.networks[n.NetworkUID]
	if network == nil || !network.OnlyIPv6() {
		return nri.Elsewhere{}
	}
	var out nri.Elsewhere
	for _, a := range w.infra.DNS {
		if a.Is4() {
			out.Resolvers = append(out.Resolvers, a)
		}
	}
	if out.Resolver = model.NamesAddress6(); model.HasIPv6(w.infra.DNS) {
		out.Resolver = w.infra.DNS[slices.IndexFunc(w.infra.DNS, netip.Addr.Is6)]
	}
	if _, lacks := w.apiLacksIPv6(); lacks {
		out.API = w.api[0].Addr()
	}
	return out
}
