package controller

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/model"
)

// apiService is that of the Kubernetes API.
func apiService() model.ServiceKey { return model.ServiceKey{Namespace: "default", Name: "kubernetes"} }

// infraServices are those whose addresses pods of every Network dial.
func (s *State) infraServices() []model.ServiceKey {
	return []model.ServiceKey{s.defaults.DNS, apiService()}
}

// noteInfraServices has what Networks have compared with the addresses of these Services, when one of them has changed.
func (s *State) noteInfraServices(changed map[model.ServiceKey]*model.Service) {
	for _, key := range s.infraServices() {
		if _, touched := changed[key]; !touched {
			continue
		}
		s.vips.all, s.unsettled = true, true
		for name, n := range s.networks {
			if through := s.through(n); !slices.Equal(through, n.layout.Through) {
				n.layout.Through, n.placed = through, false
				s.touched[name] = struct{}{}
			}
		}
	}
}

// through are the addresses of these Services in the subnets of a Network, which its router leads to the porthole. One that
// is a gateway's is the router's own.
func (s *State) through(n *network) []netip.Addr {
	if !n.layout.Faces {
		return nil
	}
	var out []netip.Addr
	for _, key := range s.infraServices() {
		if service := s.services.byKey[key]; service != nil {
			out = append(out, slices.DeleteFunc(slices.Clone(service.ClusterIPs), func(a netip.Addr) bool { return !n.layout.Holds(a) || n.routes(a) })...)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// routes reports whether an address is a gateway's.
func (n *network) routes(a netip.Addr) bool {
	for _, subnet := range n.layout.Subnets {
		for _, r := range subnet.Ranges {
			if r.Gateway == a {
				return true
			}
		}
	}
	return false
}

// wakeForClusterIPs has pods looked at again that wait for an address which Services have had.
func (s *State) wakeForClusterIPs(changed map[model.ServiceKey]*model.Service) {
	for key, service := range changed {
		old := s.services.byKey[key]
		if old == nil || service != nil && slices.Equal(old.ClusterIPs, service.ClusterIPs) {
			continue
		}
		for name, n := range s.networks {
			if len(n.waiting) > 0 && slices.ContainsFunc(old.ClusterIPs, n.layout.Holds) {
				s.freed[name] = struct{}{}
			}
		}
	}
}
