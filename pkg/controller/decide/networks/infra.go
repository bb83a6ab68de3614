package networks

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
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
		through := s.through(n)
		if slices.Equal(through, n.Layout.Through) && key != s.Cluster.DNS {
			continue
		}
		n.Layout.Through, n.routed = through, false
		s.touch(name)
	}
}

// virtual are the addresses that mean something in a Network only while a load balancer leads from them. Those of the cluster's
// Services are so in the default Network, which knows all of them, and where the porthole lets nobody through to them; those of
// Gateways and faces in every vpc Network: what a consumer may dial of these passes before (compile.PeerRows).
func (s *Stage) virtual(n *Network) compile.Virtual {
	var out compile.Virtual
	if n.hangs() || n.Default || n.Model.Infra != model.InfraDirect {
		out.Ranges = slices.Clone(s.Cluster.Services)
	}
	out.Hosts = s.Cluster.HostsWithin(n.Layout.Services)
	if !n.Layout.Faces {
		return out
	}
	out.Ranges = slices.Concat(out.Ranges, s.Cluster.Gateways, s.Cluster.Faces)
	out.Asked = slices.Clone(s.Cluster.NameServers)
	if service := s.Catalog.Service(s.Cluster.DNS); service != nil {
		out.Asked = append(out.Asked, service.ClusterIPs...)
	}
	slices.SortFunc(out.Asked, netip.Addr.Compare)
	out.Asked = slices.DeleteFunc(slices.Compact(out.Asked),
		func(a netip.Addr) bool { return !contain(out.Ranges, a) && !contain(n.Layout.Services, a) })
	return out
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
			out = append(out,
				slices.DeleteFunc(slices.Clone(service.ClusterIPs),
					func(a netip.Addr) bool { return !n.Layout.Holds(a) && !n.leads(a) || n.routes(a) })...)
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
