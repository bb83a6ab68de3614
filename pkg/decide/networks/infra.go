package networks

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
)

// APIService is the Service of the Kubernetes API.
func APIService() model.ServiceKey { return model.ServiceKey{Namespace: "default", Name: "kubernetes"} }

// infraServices are those whose addresses pods of every Network dial.
func (s *Stage) infraServices() []model.ServiceKey {
	return []model.ServiceKey{s.Cluster.DNS, APIService()}
}

// serviceChanged has what Networks have compared with the addresses of a Service, when it is one of these, and told who answers for
// names.
func (s *Stage) serviceChanged(key model.ServiceKey) {
	s.answering.Mark(key)
	if !slices.Contains(s.infraServices(), key) {
		return
	}
	s.allUnserved, s.infraChanged = true, true
	s.infrastructureMoved()
	for name, n := range s.networks {
		if through := s.through(n); !slices.Equal(through, n.Layout.Through) {
			n.Layout.Through, n.routed = through, false
			s.touch(name)
		}
	}
}

// through are the addresses of these Services in the subnets of a Network, or of those that are joined to it, which its router leads to the
// porthole. One that is a gateway's is the router's own.
func (s *Stage) through(n *Network) []netip.Addr {
	if !n.Layout.Faces {
		return nil
	}
	var out []netip.Addr
	for _, key := range s.infraServices() {
		if service := s.Catalog.Service(key); service != nil {
			out = append(out, slices.DeleteFunc(slices.Clone(service.ClusterIPs), func(a netip.Addr) bool { return !n.Layout.Holds(a) && !n.leads(a) || n.routes(a) })...)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// leads reports whether a Network's router leads an address to another one that is joined to it.
func (n *Network) leads(a netip.Addr) bool {
	return slices.ContainsFunc(n.peers.Joined, func(j compile.Joint) bool {
		return slices.ContainsFunc(j.Ranges, func(r netip.Prefix) bool { return r.Contains(a) })
	})
}

// routes reports whether an address is a gateway's.
func (n *Network) routes(a netip.Addr) bool {
	for _, r := range n.Layout.Ranges() {
		if r.Gateway == a {
			return true
		}
	}
	return false
}
