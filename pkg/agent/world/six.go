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
	rules := spec.Rules().SixOnly()
	spec.DNS, spec.API, spec.Relayed = rules.DNS, rules.API, rules.Relayed
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
	if is6 := func(at netip.AddrPort) bool { return at.Addr().Is6() }; len(w.api) > 0 && !slices.ContainsFunc(w.api, is6) {
		out.API = w.api[0].Addr()
	}
	return out
}
