// Package config is the AtollConfig of the cluster, as the programs have it: the object in, settings out.
//
// What is in force is decided once, by the controller that leads (Keeper), and stands in the object's status. Everybody else follows that
// (Follow), so that a mistake in the spec changes nothing, and a restart finds what was in force before it: whoever starts may know nothing
// else than the object.
package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// Settings are an AtollConfig's, read. Each list is empty where the object says nothing.
type Settings struct {
	// Network is where pods go that choose none, Subnet the range of a Network that lists none.
	Network string
	Subnet  netip.Prefix
	// Faces and Gateways have at most one range per IP family.
	Faces, Services, Gateways []netip.Prefix
	// Infra are further ranges that need direct access, Closed those that no Network reaches, Balancers those of load balancers that pods
	// of flat Networks reach by way of kube-proxy.
	Infra, Closed, Balancers []netip.Prefix
	// Nodes are those of nodes, and of flat Networks' pods; Hosts those of nodes alone.
	Nodes, Hosts []netip.Prefix
	// InfraNamespaces are infrastructure without a label.
	InfraNamespaces []string
	DNS             DNS
	// Inside and Outside are how many connections a pod may have at a time, inside its Network and past it. 0: any number.
	Inside, Outside uint32
	// MaxJoined is how many Networks mode Routed joins, directly and by others.
	MaxJoined int
	// Flows is what nodes keep of who talks to whom.
	Flows Flows
	// TenantNetwork is what the default Networks of Tenants are made from that have no template of their own.
	TenantNetwork model.NetworkTemplate
}

// Flows is what OVN samples of what policies decide.
type Flows struct {
	On bool
	// Networks are those where it does; all when there are none.
	Networks []string
}

// DNS is the cluster's, as kubelets tell pods of it.
type DNS struct {
	Service   model.ServiceKey
	Addresses []netip.Addr
	Domain    string
}

// Defaults are the settings of a cluster that says nothing: those that the API server fills in (dist/crds).
func Defaults() v1alpha1.AtollConfigSpec {
	return v1alpha1.AtollConfigSpec{
		DefaultNetwork: "default", DefaultSubnet: "10.128.0.0/14",
		// Routed nowhere outside. (RFC 6598; RFC 4193.)
		FaceCIDRs:    []v1alpha1.CIDR{"100.64.0.0/10", "fd64:a701::/64"},
		ServiceCIDRs: []v1alpha1.IPBlock{},
		// (RFC 2544; RFC 4193.)
		GatewayCIDRs: []v1alpha1.CIDR{"198.18.0.0/16", "fd64:a702::/64"},
		PodCIDRs:     []v1alpha1.IPBlock{}, NodeCIDRs: []v1alpha1.IPBlock{}, InfraCIDRs: []v1alpha1.IPBlock{},
		ClosedCIDRs: []v1alpha1.IPBlock{}, LoadBalancerCIDRs: []v1alpha1.IPBlock{},
		InfraNamespaces: []string{"kube-system", "atoll-system"},
		DNS: v1alpha1.ClusterDNS{
			Addresses: []v1alpha1.IP{}, Domain: "cluster.local",
			Service: v1alpha1.ClusterDNSService{Namespace: "kube-system", Name: "kube-dns"},
		},
		// A quarter of the table that nodes usually have, and a sixteenth.
		MaxPodConnections: v1alpha1.MaxPodConnections{InsideNetwork: 65536, OutsideNetwork: 16384},
		Compatibility:     v1alpha1.ClusterCompatibility{MaxJoined: compatible.MaxJoined},
		Flows:             v1alpha1.ClusterFlows{Sampling: v1alpha1.FlowSamplingOff, Networks: []string{}},
	}
}

// Parse reads a spec. Its error has all that is wrong with it, by field: also what the schema refuses, which an object of an earlier
// schema may have.
func Parse(spec v1alpha1.AtollConfigSpec) (Settings, error) {
	p := &parser{}
	s := Settings{
		Network: spec.DefaultNetwork, InfraNamespaces: spec.InfraNamespaces,
		Faces: list(p, "faceCIDRs", spec.FaceCIDRs), Services: list(p, "serviceCIDRs", spec.ServiceCIDRs), Gateways: list(p, "gatewayCIDRs",
			spec.GatewayCIDRs),
		Infra: list(p, "infraCIDRs", spec.InfraCIDRs), Closed: list(p, "closedCIDRs", spec.ClosedCIDRs), Balancers: list(p, "loadBalancerCIDRs",
			spec.LoadBalancerCIDRs),
		DNS: DNS{
			Service: model.ServiceKey{Namespace: spec.DNS.Service.Namespace, Name: spec.DNS.Service.Name}, Domain: spec.DNS.Domain,
		},
		Inside:  p.count("maxPodConnections.insideNetwork", spec.MaxPodConnections.InsideNetwork),
		Outside: p.count("maxPodConnections.outsideNetwork", spec.MaxPodConnections.OutsideNetwork),
	}
	s.Flows = Flows{On: spec.Flows.Sampling == v1alpha1.FlowSamplingOn, Networks: spec.Flows.Networks}
	// What was written before there was such a setting has none.
	if sampling := spec.Flows.Sampling; sampling != "" && sampling != v1alpha1.FlowSamplingOff && sampling != v1alpha1.FlowSamplingOn {
		p.wrong("flows.sampling", fmt.Sprintf("%q is neither On nor Off", sampling))
	}
	s.MaxJoined = p.joined("compatibility.maxJoined", spec.Compatibility.MaxJoined)
	s.TenantNetwork = intake.NetworkTemplate(spec.TenantNetworkTemplate)
	s.Subnet = p.prefix("defaultSubnet", string(spec.DefaultSubnet))
	pods, nodes := list(p, "podCIDRs", spec.PodCIDRs), list(p, "nodeCIDRs", spec.NodeCIDRs)
	s.Nodes, s.Hosts = slices.Concat(pods, nodes), nodes
	for i, text := range spec.DNS.Addresses {
		address, err := netip.ParseAddr(string(text))
		p.check(fmt.Sprintf("dns.addresses[%d]", i), err)
		s.DNS.Addresses = append(s.DNS.Addresses, address)
	}
	p.present("defaultNetwork", s.Network)
	p.present("dns.service.namespace", s.DNS.Service.Namespace)
	p.present("dns.service.name", s.DNS.Service.Name)
	p.present("dns.domain", s.DNS.Domain)
	if p.problems == nil {
		p.onePerFamily("faceCIDRs", s.Faces)
		p.onePerFamily("gatewayCIDRs", s.Gateways)
		for i, face := range s.Faces {
			if face.Addr().BitLen()-face.Bits() < model.FaceBlockBits {
				p.wrong(fmt.Sprintf("faceCIDRs[%d]", i), fmt.Sprintf("%s has not the %d addresses that a node needs", face, 1<<model.FaceBlockBits))
			}
		}
		// Where a face leads must be certain, everywhere.
		p.apartFromFaces(s.Faces, "defaultSubnet", []netip.Prefix{s.Subnet})
		p.apartFromFaces(s.Faces, "serviceCIDRs", s.Services)
		p.apartFromFaces(s.Faces, "gatewayCIDRs", s.Gateways)
		p.apartFromFaces(s.Faces, "podCIDRs", pods)
		p.apartFromFaces(s.Faces, "nodeCIDRs", nodes)
		p.apartFromFaces(s.Faces, "infraCIDRs", s.Infra)
		p.apartFromFaces(s.Faces, "closedCIDRs", s.Closed)
		p.apartFromFaces(s.Faces, "loadBalancerCIDRs", s.Balancers)
	}
	return s, errors.Join(p.problems...)
}

// Compatible are those by which it is decided who reaches whom.
func (s Settings) Compatible() compatible.Settings {
	return compatible.Settings{
		Faces: s.Faces, DefaultSubnet: s.Subnet, MaxJoined: s.MaxJoined, Default: s.Network,
		Taken: slices.Concat(s.Services, s.Gateways, s.Infra, s.Closed, s.Balancers, s.Nodes),
	}
}

// Claimable reports whether the admission policies let somebody give an address to a Service or write it into an EndpointSlice:
// no range of the infrastructure's has it, and nodeCIDRs has a range of its IP family. (dist/admission/endpoint-addresses.yaml,
// external-addresses.yaml)
func (s Settings) Claimable(a netip.Addr) bool {
	has := func(r netip.Prefix) bool { return r.Contains(a) }
	return slices.ContainsFunc(s.Hosts, func(r netip.Prefix) bool { return r.Addr().Is4() == a.Is4() }) &&
		!slices.ContainsFunc(slices.Concat(s.Faces, s.Services, s.Nodes, s.Infra, s.Closed), has)
}

// unchanged reports what must stay as it was while pods run.
func (s Settings) unchanged(before Settings) error {
	p := &parser{}
	if s.Network != before.Network {
		p.wrong("defaultNetwork", fmt.Sprintf("it cannot change from %s, whose pods run", before.Network))
	}
	if s.Subnet != before.Subnet {
		p.wrong("defaultSubnet", fmt.Sprintf("it cannot change from %s, of which pods hold addresses", before.Subnet))
	}
	if !sets.New(s.Faces...).Equal(sets.New(before.Faces...)) {
		p.wrong("faceCIDRs", fmt.Sprintf("they cannot change from %s, of which pods hold addresses", before.Faces))
	}
	return errors.Join(p.problems...)
}

// parser gathers what is wrong.
type parser struct{ problems []error }

func (p *parser) wrong(field, what string) {
	p.problems = append(p.problems, fmt.Errorf("%s: %s", field, what))
}

func (p *parser) check(field string, err error) {
	if err != nil {
		p.wrong(field, err.Error())
	}
}

func (p *parser) present(field, text string) {
	if text == "" {
		p.wrong(field, "it is empty")
	}
}

func (p *parser) count(field string, n int64) uint32 {
	if n < 0 || n > math.MaxUint32 {
		p.wrong(field, fmt.Sprintf("%d is not between 0 and %d", n, uint32(math.MaxUint32)))
		return 0
	}
	return uint32(n)
}

// joined reads a bound on joined Networks. An object of an earlier schema has none.
func (p *parser) joined(field string, n int32) int {
	switch {
	case n == 0:
		return compatible.MaxJoined
	case n < compatible.LeastMaxJoined || n > compatible.MostMaxJoined:
		p.wrong(field, fmt.Sprintf("%d is not between %d and %d", n, compatible.LeastMaxJoined, compatible.MostMaxJoined))
	}
	return int(n)
}

func (p *parser) prefix(field, text string) netip.Prefix {
	prefix, err := netip.ParsePrefix(text)
	if p.check(field, err); err == nil && prefix != prefix.Masked() {
		p.wrong(field, fmt.Sprintf("%s has host bits set; write %s", prefix, prefix.Masked()))
	}
	return prefix
}

func list[T ~string](p *parser, field string, texts []T) []netip.Prefix {
	var out []netip.Prefix
	for i, text := range texts {
		out = append(out, p.prefix(fmt.Sprintf("%s[%d]", field, i), string(text)))
	}
	return out
}

func (p *parser) onePerFamily(field string, prefixes []netip.Prefix) {
	for i, a := range prefixes {
		for _, b := range prefixes[:i] {
			if a.Addr().Is4() == b.Addr().Is4() {
				p.wrong(fmt.Sprintf("%s[%d]", field, i), fmt.Sprintf("%s is a second range of its IP family", a))
			}
		}
	}
}

func (p *parser) apartFromFaces(faces []netip.Prefix, field string, others []netip.Prefix) {
	for _, face := range faces {
		for _, other := range others {
			if face.Overlaps(other) {
				p.wrong("faceCIDRs", fmt.Sprintf("%s overlaps %s of %s", face, other, field))
			}
		}
	}
}
