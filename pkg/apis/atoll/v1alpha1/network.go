package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkType says how the addresses of a Network relate to those of the cluster.
//
// +kubebuilder:validation:Enum=flat;vpc
type NetworkType string

// The types of a Network.
const (
	// NetworkFlat is one address space that the nodes share.
	NetworkFlat NetworkType = "flat"
	// NetworkVPC is an address space of its own.
	NetworkVPC NetworkType = "vpc"
)

// Network is a virtual network for pods: subnets, and a router that joins them. Two Networks share no switch and no
// router, even if both use the same addresses.
//
// A pod joins the Network that its label atoll.dev/network names; else the one that this label of its namespace names;
// else the one that has the name of its namespace's tenant (label atoll.dev/tenant); else the default Network. The
// choice is fixed when the pod is created.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=networks,singular=network,shortName=net,categories=atoll
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`,description="flat or vpc"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="The Network's state in one word"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is Ready or not"
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`,description="Pods that hold an address"
// +kubebuilder:printcolumn:name="Tenant",type=string,JSONPath=`.spec.tenant`,description="The tenant that owns it"
// +kubebuilder:printcolumn:name="VPC",type=string,priority=1,JSONPath=`.spec.vpcID`,description="Its stable id"
// +kubebuilder:printcolumn:name="Service-CIDRs",type=string,priority=1,JSONPath=`.spec.serviceCIDRs`,description="Where its Services get addresses of the Network's own from"
// +kubebuilder:printcolumn:name="Isolation",type=string,priority=1,JSONPath=`.status.isolation.overall`,description="Hard or Soft: status.isolation says why"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && !self.metadata.name.contains('.')",message="the name of a Network must fit a label: at most 63 characters, and no dots"
type Network struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the owner asks for.
	//
	// +required
	Spec NetworkSpec `json:"spec"`
	// What the controller made of it. Only the controller writes it.
	//
	// +optional
	Status NetworkStatus `json:"status,omitempty"`
}

// NetworkList is a list of Networks.
//
// +kubebuilder:object:root=true
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Network `json:"items"`
}

// NetworkSpec is what the owner of a Network asks for. Only the type is mandatory.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'vpc' || !has(self.serviceCIDRs) || self.serviceCIDRs.size() == 0",fieldPath=".serviceCIDRs",message="only a Network of type vpc has service ranges of its own; Services of a flat one have their ClusterIPs"
// +kubebuilder:validation:XValidation:rule="self.type == 'vpc' || !has(self.compatibleWith) || self.compatibleWith.size() == 0",fieldPath=".compatibleWith",message="only a Network of type vpc is compatible with others; who reaches a flat one's pods is infraAccess of theirs"
// +kubebuilder:validation:XValidation:rule="self.type == 'vpc' || !has(self.uses) || self.uses.size() == 0",fieldPath=".uses",message="only a Network of type vpc uses others"
// +kubebuilder:validation:XValidation:rule="self.type == 'vpc' || !has(self.usesAddressesOf) || self.usesAddressesOf.size() == 0",fieldPath=".usesAddressesOf",message="only a Network of type vpc uses others"
// +kubebuilder:validation:XValidation:rule="self.type == 'vpc' || !has(self.usesServiceCIDRs) || self.usesServiceCIDRs.size() == 0",fieldPath=".usesServiceCIDRs",message="only a Network of type vpc uses others"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.vpcID) || (has(self.vpcID) && self.vpcID == oldSelf.vpcID)",fieldPath=".vpcID",message="vpcID cannot change once it is set"
type NetworkSpec struct {
	// flat: one address space, which the nodes and all flat Networks share; pods ask for no subnet and no address.
	// vpc: an address space of its own, which may overlap with any other Network's; pods may ask for a subnet and an
	// address (annotation atoll.dev/nics).
	// It cannot change.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="type cannot change; make another Network"
	Type NetworkType `json:"type"`

	// A stable id for other systems, for example vpc-1a2b3c4d: lower case letters, digits and dashes. If several
	// Networks have the same id, the oldest is served and the others fail. It cannot change once it is set.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	VPCID string `json:"vpcID,omitempty"`

	// The tenant that owns the Network: the value of the label atoll.dev/tenant on its namespaces. Empty: the Network
	// belongs to the cluster.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Tenant string `json:"tenant,omitempty"`

	// Selects by label the namespaces whose pods may attach; {} selects all. Absent: the namespaces of the tenant;
	// without a tenant, those whose label atoll.dev/network names the Network. The default Network admits all
	// namespaces that this selects (all, if absent), except those with another Network: their label atoll.dev/network
	// names another, or they belong to a tenant and have no such label. A pod that may not attach gets no network, and
	// an Event; one that may no longer attach loses its port.
	//
	// +optional
	AllowedNamespaces *metav1.LabelSelector `json:"allowedNamespaces,omitempty"`

	// The subnets, at most 64. They must not overlap one another: of two that do, the first is served. Other Networks
	// may have the same ranges. Absent: one subnet named default, with the AtollConfig's defaultSubnet. Subnets can be
	// added and removed; a removed one is served until its last pod has gone.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Subnets []Subnet `json:"subnets,omitempty"`

	// Ranges from which Services get a second address, inside the Network, beside their ClusterIPs: at most one range
	// per IP family, for example 10.96.0.0/16. The Network's names lead to it. Other Networks may have the same
	// ranges. A range that overlaps the Network's subnets or the cluster's Services is not served, and a condition
	// says so. Ranges can change: a Service whose address is in none of them gets another, and an Event. Only for type
	// vpc, and not for the default Network.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(c, isCIDR(c)) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="two ranges must be one IPv4 and one IPv6"
	ServiceCIDRs []CIDR `json:"serviceCIDRs,omitempty"`

	// How pods reach what is outside the cluster. node: from their node, with its address. none: not at all. A change
	// has effect at once.
	//
	// +optional
	// +default="node"
	Egress Egress `json:"egress,omitempty"`

	// What pods reach of nodes and the default Network. none: nothing. services: DNS and the Kubernetes API. direct:
	// nodes, and the default Network's pods and Services, by their addresses. Pods of a flat Network reach each other
	// and their Services with any value. No value opens link-local addresses (clouds' metadata), OVN's databases or
	// the nodes' tunnels. A change has effect at once.
	//
	// +optional
	// +default="services"
	InfraAccess InfraAccess `json:"infraAccess,omitempty"`

	// Which pods of the default Network reach this Network's pods, by their faces and by Services. None: none.
	// Infrastructure: those of infrastructure namespaces (the AtollConfig's infraNamespaces, and the label
	// atoll.dev/infrastructure=true). All: all. Nodes always do, and so do clients of a node port or a load balancer.
	// A change ends connections at once. Only for type vpc.
	//
	// +optional
	// +default="Infrastructure"
	InfraIngress InfraIngress `json:"infraIngress,omitempty"`

	// Who answers DNS questions. Absent: the node of the pod that asks.
	//
	// +optional
	DNS *NetworkDNS `json:"dns,omitempty"`

	// Whose pods reach this Network's pods and Services. It has one direction: this Network's pods do not reach theirs
	// for it, and nobody reaches a third Network through it. A Network of another tenant must list this one in uses. A
	// change ends connections at once. Only for type vpc.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	CompatibleWith []CompatiblePeer `json:"compatibleWith,omitempty"`

	// Networks of other tenants that this Network's pods are to reach. Each must be compatible with this one. Networks
	// of the same tenant need not be listed. Only for type vpc.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Uses []string `json:"uses,omitempty"`

	// Networks of other tenants that this Network's pods are to reach by their pods' own addresses, too. They need not
	// be in uses. It works if that Network offers it (addresses in its compatibleWith) and no address conflicts. What
	// this Network's pods send to any address of such a Network's subnets, also of later ones, reaches that Network's
	// pods or nobody, and nothing outside the cluster. Only for type vpc.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	UsesAddressesOf []string `json:"usesAddressesOf,omitempty"`

	// Ranges in which this Network's pods dial Services of other tenants' Networks by addresses of those Networks'
	// serviceCIDRs. Without an entry they are dialled by their ClusterIPs. The Networks need not be in uses. It works
	// if all serviceCIDRs of that Network lie in the ranges of its entry, and no address conflicts. What this
	// Network's pods send to any address of such a Network's serviceCIDRs reaches that Network's pods or nobody, and
	// nothing outside the cluster. With mode Routed, and with usesAddressesOf, subnets of that Network that are not
	// for private use (RFC 1918, RFC 6598, RFC 4193) must lie in these ranges as well. Only for type vpc.
	//
	// +optional
	// +listType=map
	// +listMapKey=network
	// +kubebuilder:validation:MaxItems=64
	UsesServiceCIDRs []UsedServiceCIDRs `json:"usesServiceCIDRs,omitempty"`
}

// UsedServiceCIDRs are the ranges in which a Network's pods dial another's Services.
type UsedServiceCIDRs struct {
	// The Network that has the Services.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Network string `json:"network"`

	// The ranges, at least one. They may be larger than those that the Network has.
	//
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	CIDRs []CIDR `json:"cidrs"`
}

// CompatiblePeer names Networks whose pods reach a Network: exactly one of network, tenant and all is set.
//
// +kubebuilder:validation:XValidation:rule="(has(self.network) ? 1 : 0) + (has(self.tenant) ? 1 : 0) + (has(self.all) && self.all ? 1 : 0) == 1",message="name exactly one of network, tenant and all"
type CompatiblePeer struct {
	// One Network.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Network string `json:"network,omitempty"`
	// All Networks of a tenant (spec.tenant).
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Tenant string `json:"tenant,omitempty"`
	// All Networks: those of the same tenant, and those of other tenants that list this one in uses.
	//
	// +optional
	All bool `json:"all,omitempty"`
	// ByFace (the default): pods know each other by their faces; the Networks may have the same addresses. Routed:
	// also by their own addresses, without translation. The Networks' routers are joined, so their addresses must
	// differ. It holds in both directions if either Network asks for it; between two tenants, only if both do.
	//
	// +optional
	Mode CompatibilityMode `json:"mode,omitempty"`

	// With mode ByFace: their pods also dial this Network's pods by own addresses, except addresses that lead
	// elsewhere in their own Network. A Network of another tenant must list this one in usesAddressesOf. Mode Routed
	// implies it.
	//
	// +optional
	Addresses bool `json:"addresses,omitempty"`
}

// CompatibilityMode says by which way pods reach those of another Network.
//
// +kubebuilder:validation:Enum=ByFace;Routed
type CompatibilityMode string

// The ways.
const (
	CompatibilityByFace CompatibilityMode = "ByFace"
	CompatibilityRouted CompatibilityMode = "Routed"
)

// Egress says how pods reach what is outside of the cluster.
//
// +kubebuilder:validation:Enum=none;node
type Egress string

// The ways out.
const (
	EgressNone Egress = "none"
	EgressNode Egress = "node"
)

// InfraAccess says what pods reach of the infrastructure.
//
// +kubebuilder:validation:Enum=none;services;direct
type InfraAccess string

// The degrees of access.
const (
	InfraNone     InfraAccess = "none"
	InfraServices InfraAccess = "services"
	InfraDirect   InfraAccess = "direct"
)

// InfraIngress says which pods of the default Network reach a Network's pods.
//
// +kubebuilder:validation:Enum=None;Infrastructure;All
type InfraIngress string

// The degrees of it.
const (
	InfraIngressNone           InfraIngress = "None"
	InfraIngressInfrastructure InfraIngress = "Infrastructure"
	InfraIngressAll            InfraIngress = "All"
)

// NetworkDNS says who answers the DNS questions of a Network's pods. In each mode they ask the cluster's DNS address,
// which kubelet gives them.
//
// +kubebuilder:validation:XValidation:rule="self.mode != 'service' || has(self.service)",fieldPath=".service",message="mode service needs the Service that answers"
type NetworkDNS struct {
	// node: the pod's node, with the names of this Network, of the Kubernetes API, and of the outside if egress allows
	// it. service: a Service of this Network, or of one that it reaches (compatibleWith). none: nobody; questions are
	// refused.
	//
	// +optional
	// +default="node"
	Mode DNSMode `json:"mode,omitempty"`
	// The Service that answers in mode service, for UDP and TCP: at its port named dns (dns-udp, dns-tcp), else port
	// 53.
	//
	// +optional
	Service *ServiceReference `json:"service,omitempty"`
}

// DNSMode says who answers DNS questions.
//
// +kubebuilder:validation:Enum=node;service;none
type DNSMode string

// The modes.
const (
	DNSNode    DNSMode = "node"
	DNSService DNSMode = "service"
	DNSNone    DNSMode = "none"
)

// ServiceReference names a Service.
type ServiceReference struct {
	// The Service's namespace.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// The Service's name.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}
