package intake

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Bounds on what one Network may hold. The CRD's schema has bounds too, but an object that was stored under
// an older schema still arrives here.
const (
	maxSubnets        = 256
	maxExcludes       = 1024
	maxRequirements   = 64
	maxSelectorValues = 1024
	maxServiceCIDRs   = 8
	maxPeers          = 64
)

// Network reads a Network object. A subnet that cannot be read keeps its name and says why in Error; a
// selector that cannot be read selects nothing.
func Network(in *v1alpha1.Network) *model.Network {
	out := &model.Network{
		Name:       in.Name,
		UID:        string(in.UID),
		Generation: in.Generation,
		Created:    in.CreationTimestamp.Time,
		Type:       model.NetworkType(in.Spec.Type),
		VPCID:      in.Spec.VPCID,
		Tenant:     in.Spec.Tenant,
		TenantUID:  ownerOf(in),
		Allowed:    selector(in.Spec.AllowedNamespaces),
		Egress:     model.EgressNode,
		Infra:      model.InfraServices,
		Ingress:    model.InfraIngressInfrastructure,
		DNS:        model.DNSNode,
		Isolated:   isolated(in.Status.Isolation),
		Deleting:   in.DeletionTimestamp != nil,
		Finalized:  slices.Contains(in.Finalizers, model.Finalizer),
	}
	reach(out, in.Spec)
	out.ServiceCIDRs, out.ServiceCIDRsError = serviceCIDRs(in.Spec.ServiceCIDRs)
	out.CompatibleWith = peers(in.Spec)
	out.Uses, out.UsesAddressesOf = used(in.Spec.Uses), used(in.Spec.UsesAddressesOf)
	out.UsesServiceCIDRs = usedServiceCIDRs(in.Spec.UsesServiceCIDRs)
	for i, s := range in.Spec.Subnets {
		if i == maxSubnets {
			out.Subnets[i-1].Error = fmt.Sprintf("the Network has %d subnets; at most %d are read", len(in.Spec.Subnets), maxSubnets)
			break
		}
		out.Subnets = append(out.Subnets, subnet(s))
	}
	out.Since = since(in.Status.Ranges)
	for _, s := range in.Status.Subnets {
		cidr, err := netip.ParsePrefix(s.CIDR)
		gateway, gatewayErr := netip.ParseAddr(s.Gateway)
		if err == nil && gatewayErr == nil && len(out.Served) < 2*maxSubnets {
			out.Served = append(out.Served, model.ServedRange{Subnet: s.Name, CIDR: cidr, Gateway: gateway})
		}
	}
	out.SubnetSince = subnetsSince(in)
	return out
}

// reach reads what the Network's pods reach outside of it, and who reaches them. An object that was stored before these fields
// were there has their defaults; a value that this version does not know opens nothing.
func reach(out *model.Network, in v1alpha1.NetworkSpec) {
	switch in.Egress {
	case "", v1alpha1.EgressNode:
	default:
		out.Egress = model.EgressNone
	}
	switch in.InfraAccess {
	case "", v1alpha1.InfraServices:
	case v1alpha1.InfraDirect:
		out.Infra = model.InfraDirect
	default:
		out.Infra = model.InfraNone
	}
	switch in.InfraIngress {
	case "", v1alpha1.InfraIngressInfrastructure:
	case v1alpha1.InfraIngressAll:
		out.Ingress = model.InfraIngressAll
	default:
		out.Ingress = model.InfraIngressNone
	}
	if in.DNS == nil {
		return
	}
	switch in.DNS.Mode {
	case "", v1alpha1.DNSNode:
	case v1alpha1.DNSService:
		out.DNS = model.DNSService
	default:
		out.DNS = model.DNSNone
	}
	if in.DNS.Service != nil {
		out.DNSService = model.ServiceRef{Namespace: in.DNS.Service.Namespace, Name: in.DNS.Service.Name}
	}
}

// peers reads whose pods reach a Network. What names nobody, or more than the API allows, opens nothing.
func peers(in v1alpha1.NetworkSpec) (compatibleWith []model.CompatiblePeer) {
	for _, p := range in.CompatibleWith[:min(len(in.CompatibleWith), maxPeers)] {
		peer := model.CompatiblePeer{Network: p.Network, Tenant: p.Tenant, All: p.All}
		if peer == (model.CompatiblePeer{Network: p.Network}) && p.Network != "" ||
			peer == (model.CompatiblePeer{Tenant: p.Tenant}) && p.Tenant != "" ||
			peer == (model.CompatiblePeer{All: true}) {
			if peer.Mode = model.ByFace; p.Mode == v1alpha1.CompatibilityRouted {
				peer.Mode = model.Routed
			}
			peer.Addresses = p.Addresses
			compatibleWith = append(compatibleWith, peer)
		}
	}
	return compatibleWith
}

// used reads whom a Network's pods reach, of which there are no more than the API allows.
func used(names []string) []string { return slices.Clone(names[:min(len(names), maxPeers)]) }

// usedServiceCIDRs reads in which ranges a Network's pods dial others' Services. A range that cannot be read is none.
func usedServiceCIDRs(in []v1alpha1.UsedServiceCIDRs) map[string][]netip.Prefix {
	if len(in) == 0 {
		return nil
	}
	out := map[string][]netip.Prefix{}
	for _, of := range in[:min(len(in), maxPeers)] {
		out[of.Network] = []netip.Prefix{}
		for _, text := range of.CIDRs[:min(len(of.CIDRs), maxServiceCIDRs)] {
			if p, err := parsePrefix(string(text)); err == nil {
				out[of.Network] = append(out[of.Network], p)
			}
		}
	}
	return out
}

// subnetsSince reads when a Network got its subnets. Those of a status from before statuses said so are as old as the Network.
func subnetsSince(in *v1alpha1.Network) map[string]time.Time {
	if len(in.Status.Subnets) == 0 {
		return nil
	}
	out := map[string]time.Time{}
	for _, s := range in.Status.Subnets[:min(len(in.Status.Subnets), 2*maxSubnets)] {
		out[s.Name] = ptr.Deref(s.Since, in.CreationTimestamp).Time
	}
	return out
}

// since reads when a Network got its ranges.
func since(in []v1alpha1.RangeStatus) map[netip.Prefix]time.Time {
	if len(in) == 0 {
		return nil
	}
	out := map[netip.Prefix]time.Time{}
	for _, r := range in[:min(len(in), maxRanges)] {
		if p, err := parsePrefix(r.CIDR); err == nil {
			out[p] = r.Since.Time
		}
	}
	return out
}

func subnet(in v1alpha1.Subnet) model.Subnet {
	out := model.Subnet{Name: in.Name}
	var problems []string
	problem := func(err error) { problems = append(problems, err.Error()) }

	var have families
	for _, text := range in.CIDRs {
		p, err := parsePrefix(string(text))
		if err != nil {
			problem(fmt.Errorf("cidrs: %w", err))
			break
		}
		if !have.first(p.Addr()) {
			problem(fmt.Errorf("cidrs: %s is a second %s range; a subnet has one", p, familyName(p.Addr())))
			break
		}
		out.CIDRs = append(out.CIDRs, p)
	}

	have = families{}
	for _, text := range in.GatewayIPs {
		a, err := parseAddr(string(text))
		if err != nil {
			problem(fmt.Errorf("gatewayIPs: %w", err))
			break
		}
		if !have.first(a) {
			problem(fmt.Errorf("gatewayIPs: %s is a second %s gateway; a subnet has one", a, familyName(a)))
			break
		}
		out.Gateways = append(out.Gateways, a)
	}

	for i, text := range in.ExcludeIPs {
		if i == maxExcludes {
			problem(fmt.Errorf("excludeIPs: %d entries; at most %d are read", len(in.ExcludeIPs), maxExcludes))
			break
		}
		r, err := parseRange(string(text))
		if err != nil {
			problem(fmt.Errorf("excludeIPs: %w", err))
			break
		}
		out.Exclude = append(out.Exclude, r)
	}
	out.Error = strings.Join(problems, "; ")
	return out
}

// serviceCIDRs reads the service ranges: those of them that can be read, and in plain words what is wrong with others.
func serviceCIDRs(in []v1alpha1.CIDR) (out []netip.Prefix, problem string) {
	var problems []string
	var have families
	for _, text := range in[:min(len(in), maxServiceCIDRs)] {
		p, err := parsePrefix(string(text))
		switch {
		case err != nil:
			problems = append(problems, err.Error())
		case !have.first(p.Addr()):
			problems = append(problems, fmt.Sprintf("%s is a second %s range; a Network has one", p, familyName(p.Addr())))
		default:
			out = append(out, p)
		}
	}
	if len(in) > maxServiceCIDRs {
		problems = append(problems, fmt.Sprintf("there are %d ranges; at most %d are read", len(in), maxServiceCIDRs))
	}
	return out, strings.Join(problems, "; ")
}

// families are the IP families that have been seen.
type families struct{ v4, v6 bool }

// first takes note of a's family and reports whether it is the first of it.
func (f *families) first(a netip.Addr) bool {
	seen := &f.v6
	if a.Is4() {
		seen = &f.v4
	}
	before := *seen
	*seen = true
	return !before
}

func familyName(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// nobody is the selector that no labels match.
func nobody() *match.Selector {
	return &match.Selector{Requirements: []match.Requirement{{Op: match.In}}}
}

// selector reads a label selector: nil stays nil, an empty one selects everything, one that Kubernetes
// itself would refuse selects nothing.
func selector(in *metav1.LabelSelector) *match.Selector {
	if in == nil {
		return nil
	}
	out, err := readSelector(in)
	if err != nil {
		return nobody()
	}
	return &out
}

// readSelector reads a label selector. Its errors are for the selector's owner.
func readSelector(in *metav1.LabelSelector) (match.Selector, error) {
	var none, out match.Selector
	if n := len(in.MatchLabels) + len(in.MatchExpressions); n > maxRequirements {
		return none, fmt.Errorf("%d requirements; at most %d are read", n, maxRequirements)
	}
	if _, err := metav1.LabelSelectorAsSelector(in); err != nil {
		return none, err
	}
	for _, key := range slices.Sorted(maps.Keys(in.MatchLabels)) {
		out.Requirements = append(out.Requirements, match.Requirement{
			Key: key, Op: match.In, Values: []string{in.MatchLabels[key]},
		})
	}
	values := 0
	for _, e := range in.MatchExpressions {
		op, known := operators[e.Operator]
		if !known {
			return none, fmt.Errorf("there is no operator %s", quote(string(e.Operator)))
		}
		if values += len(e.Values); values > maxSelectorValues {
			return none, fmt.Errorf("more than %d values", maxSelectorValues)
		}
		out.Requirements = append(out.Requirements, match.Requirement{Key: e.Key, Op: op, Values: slices.Clone(e.Values)})
	}
	return out, nil
}

// operators are those of label selectors.
var operators = map[metav1.LabelSelectorOperator]match.Operator{
	metav1.LabelSelectorOpIn:           match.In,
	metav1.LabelSelectorOpNotIn:        match.NotIn,
	metav1.LabelSelectorOpExists:       match.Exists,
	metav1.LabelSelectorOpDoesNotExist: match.DoesNotExist,
}
