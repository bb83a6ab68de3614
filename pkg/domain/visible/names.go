package visible

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// APIKey is the Kubernetes API's Service: the one name that exists in a Network because the Network has access to the infrastructure.
func APIKey() model.ServiceKey { return model.ServiceKey{Namespace: "default", Name: "kubernetes"} }

// Asker is a Network whose pods ask for names of Services. Who answers them, and who says what the answer is, both go by it.
type Asker struct {
	Looker
	// Networks are those of the cluster, and Peers says which of these the Network reaches.
	Networks map[string]*model.Network
	Peers    *compatible.Networks
}

// Named is a Service whose name is asked for.
type Named struct {
	Key model.ServiceKey
	Service
	// ClusterIPs are its virtual addresses, and Own those that it has in the Network of its namespace beside them; nil when it has none.
	ClusterIPs []netip.Addr
	Own        *model.ServiceAddresses
}

// Knows says why a Network's pods know the name of a Service.
type Knows struct {
	// Itself: they know it as one of their own Network's.
	Itself bool
	// Provider is the Network that offers it to them; nil when none does.
	Provider *model.Network
}

// Any reports whether there is a reason: without one the name does not exist there.
func (k Knows) Any() bool { return k.Itself || k.Provider != nil }

// Knows says whether the Network's pods know a Service's name. A consumer knows the Services of namespaces that are at home with its
// providers and may attach there: neither what these see of others, nor Services that only have endpoints there. The Kubernetes
// API's is nobody's offer: infraAccess decides about it.
func (a Asker) Knows(s Named) (out Knows) {
	out.Itself = a.Sees(s.Service)
	if s.Key == APIKey() {
		out.Itself = out.Itself || a.Infra != model.InfraNone
		return out
	}
	if s.Namespace == nil || !a.Peers.Reaches(a.Name, s.Home) {
		return out
	}
	if n := a.Networks[s.Home]; n != nil && n.Admits(*s.Namespace) {
		out.Provider = n
	}
	return out
}

// Addresses are the virtual addresses that a Service's name stands for, for a reason: its ClusterIPs, but where it has an address of the
// Network's own, that one instead of the ClusterIP of the same IP family. It has some in the Network of its namespace only, and out
// of that Network's ranges: so much of what is written on a Service is checked here again. Consumers dial these where they dial
// addresses of the provider's ranges.
//
// The Kubernetes API has an address that pods of a Network of IPv6 alone can dial, if the cluster gave it none.
func (a Asker) Addresses(s Named, k Knows) []netip.Addr {
	n := a.Network
	if k.Provider != nil {
		if n = k.Provider; !a.Peers.DialsServices(a.Name, n.Name) {
			return s.ClusterIPs
		}
	}
	if s.Key == APIKey() && n.OnlyIPv6() && !model.HasIPv6(s.ClusterIPs) {
		return []netip.Addr{model.APIAddress6()}
	}
	own := s.Own
	if own == nil || own.Network != n.Name || own.NetworkUID != n.UID || s.Namespace == nil || s.Home != n.Name || !n.Admits(*s.Namespace) {
		return s.ClusterIPs
	}
	out := slices.Clone(s.ClusterIPs)
	for i, ip := range out {
		for _, given := range own.Addresses {
			if given.Is4() == ip.Is4() && slices.ContainsFunc(n.ServiceCIDRs, func(p netip.Prefix) bool { return p.Contains(given) }) {
				out[i] = given
			}
		}
	}
	return out
}

// Reach is by which addresses endpoints are told of.
type Reach int

// The ways to reach endpoints.
const (
	Unreached Reach = iota
	ByOwnAddress
	ByFace
)

// Reaches says by which addresses pods are told of a Service's endpoints in a Network: in their own one where they know the Service
// themselves; and where a provider offers it, in that one and in others that they reach, as far as these admit its namespace.
func (a Asker) Reaches(s Named, k Knows, network string) Reach {
	if network == a.Name {
		if k.Itself {
			return ByOwnAddress
		}
		return Unreached
	}
	n := a.Networks[network]
	if k.Provider == nil || n == nil || !a.Peers.Reaches(a.Name, network) || !n.Admits(*s.Namespace) {
		return Unreached
	}
	return ByFace
}

// Host is the first label of an endpoint's name: its hostname, else its address with dashes, as CoreDNS has it.
func Host(hostname string, addr netip.Addr) string {
	if hostname != "" {
		return strings.ToLower(hostname)
	}
	return dashed(addr)
}

// dashed writes an address as a label. A label may not end with a dash.
func dashed(a netip.Addr) string {
	s := strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
	if strings.HasSuffix(s, "-") {
		s += "0"
	}
	if strings.HasPrefix(s, "-") {
		s = "0" + s
	}
	return s
}
