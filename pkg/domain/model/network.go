package model

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/match"
)

// NetworkType says how a Network's addresses relate to the cluster's.
type NetworkType string

// The types of a Network.
const (
	// Flat: one address space that the nodes share; pods cannot ask for a subnet or an address.
	Flat NetworkType = "flat"
	// VPC: an address space of its own, which may overlap with any other.
	VPC NetworkType = "vpc"
)

// Network is a Network object: what its owner asked for.
type Network struct {
	Name       string
	UID        string
	Generation int64
	Created    time.Time
	Type       NetworkType
	VPCID      string
	Tenant     string
	// TenantUID is the UID of the Tenant that it was made for, as its default Network; empty for others.
	TenantUID string
	// Allowed selects the namespaces whose pods may attach; nil means the tenant's own, or all when the
	// Network has no tenant.
	Allowed *match.Selector
	Subnets []Subnet
	// ServiceCIDRs are the ranges that Services get addresses of the Network's own from, as its owner wrote them; whether
	// they make sense is decided in package compile. ServiceCIDRsError says in plain words what of them cannot be read.
	ServiceCIDRs      []netip.Prefix
	ServiceCIDRsError string
	Egress            Egress
	Infra             InfraAccess
	Ingress           InfraIngress
	DNS               DNSMode
	// DNSService answers in mode DNSService.
	DNSService ServiceRef
	// CompatibleWith are those whose pods reach this Network's, and Uses the Networks of other tenants that its pods reach. UsesAddressesOf
	// are those that they reach by pods' own addresses, too; they need not be among Uses.
	CompatibleWith  []CompatiblePeer
	Uses            []string
	UsesAddressesOf []string
	// UsesServiceCIDRs are the ranges in which its pods dial Services of Networks of other tenants by addresses of these Networks' own, by
	// Network; these need not be among Uses.
	UsesServiceCIDRs map[string][]netip.Prefix
	// Since is when it got each of its ranges, of subnets and of Services, as its status says.
	Since map[netip.Prefix]time.Time
	// SubnetSince is when it got each of its subnets, by name, as its status says.
	SubnetSince map[string]time.Time
	// Served are the ranges of subnets that its status says are served: what an earlier decision made of it.
	Served []ServedRange
	// Isolated is the verdict that its status tells; empty: none.
	Isolated Hardness
	// Deleting: the object waits for its finalizers.
	Deleting bool
	// Finalized: the object carries Finalizer.
	Finalized bool
}

// CompatiblePeer names Networks: one by its name, those of a tenant, or all.
type CompatiblePeer struct {
	Network, Tenant string
	All             bool
	Mode            CompatibilityMode
	// Addresses: with mode ByFace they know pods by their own addresses, too.
	Addresses bool
}

// CompatibilityMode says by which way the pods of one Network reach those of another.
type CompatibilityMode string

// The ways.
const (
	// ByFace: pods know each other by their faces, and nothing joins the Networks.
	ByFace CompatibilityMode = "ByFace"
	// Routed: by their own addresses, too. The Networks' routers are joined.
	Routed CompatibilityMode = "Routed"
)

// Subnet is one subnet of a Network as its owner wrote it; whether it makes sense is decided in package
// compile.
type Subnet struct {
	Name string
	// CIDRs: at most one per IP family.
	CIDRs []netip.Prefix
	// Gateways: the router's address per IP family; a family that has none gets the first host address.
	Gateways []netip.Addr
	// Exclude: addresses that pods never get.
	Exclude []AddrRange
	// Error says in plain words what of the subnet cannot be read; empty when all can.
	Error string
	// Waits: the controller does not serve the subnet yet, because the tenant changes its Networks too often. Such a subnet has a name only.
	Waits bool
}

// ServedRange is a range of a subnet that is served, with its gateway.
type ServedRange struct {
	Subnet  string
	CIDR    netip.Prefix
	Gateway netip.Addr
}

// AddrRange is a range of addresses of one family, both ends included.
type AddrRange struct {
	First, Last netip.Addr
}

// Contains reports whether a lies within the range.
func (r AddrRange) Contains(a netip.Addr) bool {
	return r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0
}

// Namespace is a namespace with all its labels.
type Namespace struct {
	Name   string
	UID    string
	Labels map[string]string
	// Unknown is what Keys says of its labels and annotations.
	Unknown []string
}

// Network is the namespace's choice for its pods; empty when it made none.
func (n Namespace) Network() string { return n.Labels[LabelNetwork] }

// Home is the Network that the namespace's labels give it: the one that LabelNetwork names, else its tenant's default Network, which has
// the tenant's name. Empty when they give it none: then the cluster's default one is its home.
func (n Namespace) Home() string { return cmp.Or(n.Network(), n.Tenant()) }

// Infrastructure reports whether the namespace is labelled as infrastructure.
func (n Namespace) Infrastructure() bool { return n.Labels[LabelInfrastructure] == "true" }

// Privileged reports whether the namespace's pods may have all the rights of their nodes.
func (n Namespace) Privileged() bool { return n.Labels[LabelPodSecurity] == "privileged" }

// Tenant is the tenant that owns the namespace; empty when none does.
func (n Namespace) Tenant() string { return n.Labels[LabelTenant] }
