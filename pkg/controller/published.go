package controller

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
)

// publishedIn are the addresses of a Service's load balancer that lead to the Service inside a Network, too, where pods dial
// them because its public name does: without leaving the Network, whatever its egress. Not those that mean something else
// there: an address of the Network's own, of the default Network, or of the cluster's Services.
//
// In the default Network kube-proxy does it, on the pod's node.
func (s *State) publishedIn(service model.Service, n *network) []netip.Addr {
	if !n.layout.Faces {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(service.Published), func(a netip.Addr) bool {
		return s.meansElse(n, a)
	})
}

func (s *State) meansElse(n *network, a netip.Addr) bool {
	holds := func(p netip.Prefix) bool { return p.Contains(a) }
	return slices.ContainsFunc(n.layout.Subnets, func(subnet compile.SubnetLayout) bool { return subnetHolds(subnet, a) }) ||
		slices.ContainsFunc(n.vips.served, holds) || slices.ContainsFunc(s.defaults.Gateways, holds) ||
		s.clusterWithin(netip.PrefixFrom(a, a.BitLen())) != ""
}
