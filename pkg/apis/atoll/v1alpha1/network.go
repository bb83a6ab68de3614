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

// Network is a virtual network for pods: a router with subnets of its own. Pods of two Networks never meet, even if
// both Networks use the same addresses.
//
// A pod joins the Network that its label atoll.dev/network names; without the label, the one that the same label of
// its namespace names; without either, the one of the name of the tenant that its namespace belongs to (label
// atoll.dev/tenant); without any, the Network "default". The choice is fixed when the pod is created.
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
	// What the controller has made of it.
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
	// flat: one address space that the nodes share; a pod cannot ask for a subnet or an address.
	// vpc: an address space of its own, which may overlap with any other Network's; a pod may ask for a subnet and an
	// address with the annotation atoll.dev/nics.
	// The type cannot change.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="type cannot change; make another Network"
	Type NetworkType `json:"type"`

	// An id under which other systems know the Network, for example vpc-1a2b3c4d: lower case letters, digits and
	// dashes. At most one Network can have an id: of several that name the same one, the oldest has it and the others
	// fail. Once set it cannot change.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	VPCID string `json:"vpcID,omitempty"`

	// The tenant that owns the Network: the value that the label atoll.dev/tenant has on the tenant's namespaces. Empty
	// means that the Network belongs to the cluster.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Tenant string `json:"tenant,omitempty"`

	// Selects by label the namespaces whose pods may attach; {} selects all. When it is absent, the namespaces of the
	// tenant may attach; without a tenant, those whose label atoll.dev/network names the Network. The cluster's default
	// Network admits all namespaces that it selects, or all if it selects none, but those that have another Network of
	// their own: whose label atoll.dev/network names another, or that belong to a tenant and name none. A pod that may
	// not attach gets no network, and an Event that says so.
	//
	// +optional
	AllowedNamespaces *metav1.LabelSelector `json:"allowedNamespaces,omitempty"`

	// The subnets of the Network, at most 64. They may not overlap one another; those of other Networks do not matter. Of
	// two that overlap the first is served. When there is none, the Network has one subnet named "default", of the range
	// that the AtollConfig gives (defaultSubnet). Subnets can be added and removed; pods that hold an address of a
	// subnet that is removed are cut off.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Subnets []Subnet `json:"subnets,omitempty"`

	// The ranges that Services get addresses of the Network's own from, beside their ClusterIPs: at most one per IP family,
	// for example 10.96.0.0/16. Only for type vpc. A Service with ClusterIPs in a namespace of the Network gets one address
	// for each IP family of these; the Network's pods find it under the Service's name. Other Networks may have the same
	// ranges. A range may overlap neither the Network's subnets nor the infrastructure's addresses: one that does is not
	// served, and a condition says so. Ranges can be added, and removed: a Service whose address lies in none of them any
	// more gets another.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(c, isCIDR(c)) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="two ranges must be one IPv4 and one IPv6"
	ServiceCIDRs []CIDR `json:"serviceCIDRs,omitempty"`

	// How pods reach what is outside of the cluster. node (the default): from the pod's node, with the node's address.
	// none: not at all.
	//
	// +optional
	// +default="node"
	Egress Egress `json:"egress,omitempty"`

	// What pods reach of the infrastructure: the nodes and the default Network. none: nothing. services (the default): DNS and
	// the Kubernetes API. direct: nodes, and the pods and Services of the default Network, by their addresses. Pods of a flat
	// Network reach each other and the Services of each other whatever it says. Never reached are addresses for a link only,
	// such as a cloud's metadata service, OVN's databases, and the tunnels between nodes.
	//
	// +optional
	// +default="services"
	InfraAccess InfraAccess `json:"infraAccess,omitempty"`

	// Which pods of the default Network reach this Network's pods, by the addresses that Kubernetes knows them by and by
	// Services that lead there: ingress proxies, scrapers, callers of webhooks. None: none. Infrastructure (the default): those of
	// namespaces that are infrastructure, which the AtollConfig (infraNamespaces) and the label
	// atoll.dev/infrastructure=true of namespaces say. All: every one. Nodes, and what comes from outside by a node port or a
	// load balancer, always do. Only for type vpc: a flat Network's pods are known by their own addresses.
	//
	// +optional
	// +default="Infrastructure"
	InfraIngress InfraIngress `json:"infraIngress,omitempty"`

	// Who answers DNS questions. When it is absent, the node of the pod that asks.
	//
	// +optional
	DNS *NetworkDNS `json:"dns,omitempty"`

	// Whose pods reach this Network's pods and Services: this Network is compatible with theirs. It has a direction: this
	// Network's pods do not reach theirs for it, and nobody reaches a third Network through it. A Network of another tenant must
	// list this one in its uses besides. They dial Services by the addresses that these have, and pods by those that Kubernetes
	// knows them by (status.podIPs). Only for type vpc.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	CompatibleWith []CompatiblePeer `json:"compatibleWith,omitempty"`

	// The Networks of other tenants that this Network's pods are to reach, by name. Each must be compatible with this one.
	// Networks of the same tenant need not be listed. Only for type vpc.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Uses []string `json:"uses,omitempty"`

	// The Networks of other tenants that this Network's pods are to reach by the addresses that pods have there, too, by name: what is
	// said of uses holds for each, which need not be listed there as well. What this Network's pods send to any address of such a
	// Network's subnets, now and whenever it gets others, reaches that Network's pods or nobody: nothing outside of the cluster. It is
	// so where that Network offers it (addresses of its compatibleWith), and no address conflicts. Only for type vpc.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	UsesAddressesOf []string `json:"usesAddressesOf,omitempty"`

	// The ranges in which this Network's pods are to dial Services of Networks of other tenants by the addresses that these have of
	// serviceCIDRs of those Networks: what is said of uses holds for each Network, which need not be listed there as well. Without an entry
	// they are dialled by their ClusterIPs. What this Network's pods send to any address of such a Network's serviceCIDRs reaches that
	// Network's pods or nobody: nothing outside of the cluster. It is so where all serviceCIDRs of that Network lie in the ranges of its
	// entry, and no address conflicts. With mode Routed, and with usesAddressesOf, subnets of that Network that are not for private use
	// (RFC 1918, RFC 6598, RFC 4193) must lie in these ranges as well. Only for type vpc.
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

// CompatiblePeer names Networks whose pods reach a Network: one of its fields is set.
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
	// All Networks: those of the same tenant, and those of others that list this one in their uses.
	//
	// +optional
	All bool `json:"all,omitempty"`
	// ByFace (the default): pods are known to each other by the addresses that Kubernetes knows them by; the Networks may have the
	// same addresses. Routed: by their own addresses, too, without translation. The Networks' routers are joined; their addresses must
	// be different ones. It is so in both directions if either asks for it; between two tenants only if both do.
	//
	// +optional
	Mode CompatibilityMode `json:"mode,omitempty"`

	// With mode ByFace, their pods dial this Network's pods by the addresses that these have here, too, where those do not conflict
	// with what else these addresses mean to them. A Network of another tenant must list this one in its usesAddressesOf. With mode
	// Routed it is so in any case.
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

// NetworkDNS says who answers the DNS questions of a Network's pods. They ask the cluster's DNS address, which the
// kubelet gives them, in each mode.
//
// +kubebuilder:validation:XValidation:rule="self.mode != 'service' || has(self.service)",fieldPath=".service",message="mode service needs the Service that answers"
type NetworkDNS struct {
	// node (the default): the pod's node answers, with the names of this Network, of the Kubernetes API, and those outside of
	// the cluster if egress allows. service: a Service of the Network, or of one whose pods it reaches (compatibleWith), answers.
	// none: nobody does.
	//
	// +optional
	// +default="node"
	Mode DNSMode `json:"mode,omitempty"`
	// The Service that answers in mode service; its port named dns, or 53.
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
