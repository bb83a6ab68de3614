package porthole

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/egress"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// Spec is the wanted state of one porthole. A nil or empty list opens nothing.
type Spec struct {
	// UID and Network name the Network.
	UID, Network string
	// Subnets are the Network's, as its router serves them.
	Subnets []netip.Prefix
	// ServiceRanges are where the Network's Services have addresses of their own. OVN leads these to pods; what arrives here
	// is for an address or a port that no Service has, and leads nowhere.
	ServiceRanges []netip.Prefix
	// Addressed are the subnets of providers whose pods the Network's pods dial by their own addresses, and the ranges in which they
	// dial Services of providers. OVN makes faces of these; what arrives here is for an address that nobody there has, and leads
	// nowhere outside of the cluster.
	Addressed []netip.Prefix
	// Pods are the Network's pods on this node.
	Pods []Pod
	// Egress and Infra are the Network's choices.
	Egress model.Egress
	Infra  model.InfraAccess
	// Consumer: its pods reach those of some other Network by their faces. Provider: pods of some other Network reach its own so, and have
	// faces themselves then. Neither says whom: that judge OVN and the node.
	Consumer, Provider bool
	// DNS are the addresses that pods ask for names; whoever answers listens on them inside the porthole. Empty when
	// nobody does.
	DNS []netip.Addr
	// API are the Kubernetes API's addresses in the cluster, as pods know them.
	API []netip.AddrPort
	// Relayed are addresses at which somebody takes connections to the Kubernetes API inside the porthole: its servers have none
	// of the family. Empty when pods dial them.
	Relayed []netip.AddrPort
	// Cluster is what all portholes of a node share.
	Cluster Cluster
	// MTU of both links, in bytes of IP packet.
	MTU int
	// Offload says who fills in the checksums of what enters the Network.
	Offload netdev.Offload
}

// Pod is an address of a pod, and the face of the same family that Kubernetes knows it by.
type Pod struct {
	Own, Face netip.Addr
}

// Cluster is what is known of the infrastructure.
type Cluster struct {
	// Servers are the addresses by which the API servers are really reached.
	Servers []netip.AddrPort
	// Faces are the ranges that all faces of the cluster lie in: no pod reaches another's face.
	Faces []netip.Prefix
	// Infra are the addresses of nodes, the default Network, Services and what else the node's owner named: open to
	// Networks with direct access.
	Infra []netip.Prefix
	// Closed are the addresses of OVN's databases and of tunnels, and what else the node's owner named: open to no Network.
	Closed []netip.Prefix
	// MaxConnections is how many a pod may have at a time past its Network: to the outside, the infrastructure or the node's DNS. 0:
	// any number.
	MaxConnections uint32
}

func (s Spec) id() ID { return IDOf(s.UID) }

func (s Spec) hasIPv6() bool {
	return slices.ContainsFunc(s.Subnets, func(p netip.Prefix) bool { return p.Addr().Is6() })
}

// Rules are what of a Spec decides what the Network's pods reach past it.
func (s Spec) Rules() egress.Rules {
	return egress.Rules{
		Egress: s.Egress, Infra: s.Infra, Consumer: s.Consumer, DNS: s.DNS, API: s.API, Relayed: s.Relayed, Servers: s.Cluster.Servers,
		ServiceRanges: s.ServiceRanges, Addressed: s.Addressed,
		Faces: s.Cluster.Faces, Infrastructure: s.Cluster.Infra, Closed: s.Cluster.Closed,
	}
}

// normal is the spec with every list sorted and without repetition: what is equal in meaning is equal.
func (s Spec) normal() Spec {
	s.Subnets = model.Outermost(s.Subnets)
	s.ServiceRanges = model.Outermost(s.ServiceRanges)
	s.Addressed = model.Outermost(s.Addressed)
	s.Cluster.Faces = model.Outermost(s.Cluster.Faces)
	s.Cluster.Infra = model.Outermost(s.Cluster.Infra)
	s.Cluster.Closed = model.Outermost(s.Cluster.Closed)
	s.DNS = unique(s.DNS, netip.Addr.Compare)
	s.API = unique(s.API, netip.AddrPort.Compare)
	s.Relayed = unique(s.Relayed, netip.AddrPort.Compare)
	s.Cluster.Servers = unique(s.Cluster.Servers, netip.AddrPort.Compare)
	s.Pods = unique(s.Pods, comparePods)
	return s
}

func comparePods(a, b Pod) int {
	return cmp.Or(a.Own.Compare(b.Own), a.Face.Compare(b.Face))
}

// sameButPods reports whether two normal specs differ in nothing but their pods.
func (s Spec) sameButPods(o Spec) bool {
	return s.UID == o.UID && s.Network == o.Network && s.Egress == o.Egress && s.Infra == o.Infra &&
		s.Consumer == o.Consumer && s.Provider == o.Provider &&
		s.MTU == o.MTU && s.Offload == o.Offload &&
		slices.Equal(s.Subnets, o.Subnets) && slices.Equal(s.ServiceRanges, o.ServiceRanges) && slices.Equal(s.Addressed, o.Addressed) &&
		slices.Equal(s.DNS, o.DNS) && slices.Equal(s.API, o.API) && slices.Equal(s.Relayed, o.Relayed) &&
		s.Cluster.equal(o.Cluster)
}

func (c Cluster) equal(o Cluster) bool {
	return slices.Equal(c.Servers, o.Servers) && slices.Equal(c.Faces, o.Faces) && slices.Equal(c.Infra, o.Infra) &&
		slices.Equal(c.Closed, o.Closed) && c.MaxConnections == o.MaxConnections
}

func unique[T comparable](in []T, compare func(T, T) int) []T {
	return slices.Compact(slices.SortedFunc(slices.Values(in), compare))
}

// missing is what of a is not in b, both sorted.
func missing(a, b []Pod) []Pod {
	var out []Pod
	for _, p := range a {
		if _, found := slices.BinarySearchFunc(b, p, comparePods); !found {
			out = append(out, p)
		}
	}
	return out
}
