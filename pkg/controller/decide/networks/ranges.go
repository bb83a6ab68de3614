package networks

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// ServeRanges gives Networks that changed, or all when the infrastructure did, the service ranges that they can serve.
func (s *Stage) ServeRanges() {
	names := s.unserved.Take()
	if s.allUnserved {
		for name := range s.networks {
			names[name] = struct{}{}
		}
	}
	for name := range names {
		n := s.Get(name)
		if n == nil {
			s.Virtual.Serve(name, ledger.Serving{})
			continue
		}
		served, problems := s.serviceRanges(n)
		if !slices.Equal(problems, n.rangeProblems) {
			n.rangeProblems = problems
			s.unreported.Mark(name)
			s.tell(n, nil, problems)
		}
		s.Virtual.Serve(name, ledger.Serving{UID: n.Model.UID, Own: served, Taken: n.Layout.Taken()})
	}
	if s.allUnserved {
		// What the addresses of load balancers mean depends on it.
		s.InfrastructureChanged.Changed(struct{}{})
	}
	s.allUnserved = false
}

// serviceRanges are the ranges that a Network can serve, and why not the others: its owner's mistakes, and what is the
// infrastructure's.
func (s *Stage) serviceRanges(n *Network) ([]netip.Prefix, []model.Problem) {
	if len(n.Model.ServiceCIDRs) == 0 && n.Model.ServiceCIDRsError == "" {
		return nil, nil
	}
	planned, problems := compile.PlanServices(*n.Model, s.Cluster.Layout())
	var served []netip.Prefix
	for _, cidr := range planned {
		if what := s.infraWithin(n, cidr); what != "" {
			problems = append(problems, model.Problemf(model.ReasonServiceCIDROverlaps,
				"service range %s is not served: %s; give it other addresses", cidr, what))
			continue
		}
		served = append(served, cidr)
	}
	return served, problems
}

// infraWithin says why the addresses of a service range must not mean something else in the Network; empty when they may. What
// else of the infrastructure's it overlaps the Network cannot dial, and says so.
func (s *Stage) infraWithin(n *Network, cidr netip.Prefix) string {
	if n.Default {
		return "the Services of the default Network have their ClusterIPs"
	}
	return s.clusterIPsWithin(cidr)
}

// MeansInfrastructure reports whether an address is one of the infrastructure's or of the cluster's own Services.
func (s *Stage) MeansInfrastructure(a netip.Addr) bool {
	return s.clusterWithin(netip.PrefixFrom(a, a.BitLen())) != ""
}

// clusterWithin says what of all the infrastructure's a range overlaps, but for the nodes' addresses; empty when it is nothing.
func (s *Stage) clusterWithin(cidr netip.Prefix) string {
	for _, taken := range s.infrastructure() {
		if taken.cidr.Overlaps(cidr) {
			return "it overlaps " + taken.what
		}
	}
	return s.clusterIPsWithin(cidr)
}

// clusterIPsWithin says the same of the cluster's own range of Services.
func (s *Stage) clusterIPsWithin(cidr netip.Prefix) string {
	for _, cluster := range s.Cluster.Services {
		if cluster.Overlaps(cidr) {
			return fmt.Sprintf("it overlaps %s, the cluster's own range of Services", cluster)
		}
	}
	for _, key := range s.infraServices() {
		if service := s.Catalog.Service(key); service != nil {
			if i := slices.IndexFunc(service.ClusterIPs, cidr.Contains); i >= 0 {
				return fmt.Sprintf("it holds %s, the address of Service %s", service.ClusterIPs[i], key)
			}
		}
	}
	return ""
}
