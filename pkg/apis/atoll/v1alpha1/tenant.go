package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Tenant is somebody to whom namespaces and Networks of the cluster belong: the namespaces whose label atoll.dev/tenant has
// its name, and the Networks whose spec.tenant does.
//
// It has a default Network of its own name, which the controller makes from a template: pods of its namespaces join that one
// if neither they nor their namespace names another. The Network goes when the Tenant does, which waits for pods to go first.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=tenants,singular=tenant,shortName=ten,categories=atoll
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="The Tenant's state in one word"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is Ready or not"
// +kubebuilder:printcolumn:name="Networks",type=integer,JSONPath=`.status.networks`,description="Its Networks"
// +kubebuilder:printcolumn:name="Namespaces",type=integer,JSONPath=`.status.namespaces`,description="Its namespaces"
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`,description="Pods of its namespaces that hold an address"
// +kubebuilder:printcolumn:name="Services",type=integer,JSONPath=`.status.services`,description="Services of its namespaces that have a virtual address"
// +kubebuilder:printcolumn:name="Gateways",type=integer,JSONPath=`.status.gateways`,description="Gateways of Atoll's classes in its namespaces"
// +kubebuilder:printcolumn:name="Isolation",type=string,JSONPath=`.status.isolation.overall`,description="Hard or Soft: status.isolation says why"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a Tenant must fit a label and a Network's name: at most 63 characters, and no dots"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('--')",message="the name of a Tenant has no two dashes in a row: they divide a tenant's name from the rest in the names of his Networks"
type Tenant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is asked for.
	//
	// +optional
	Spec TenantSpec `json:"spec,omitempty"`
	// What the controller has made of it.
	//
	// +optional
	Status TenantStatus `json:"status,omitempty"`
}

// TenantList is a list of Tenants.
//
// +kubebuilder:object:root=true
type TenantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Tenant `json:"items"`
}

// TenantSpec is what a tenant gets.
type TenantSpec struct {
	// What the tenant's default Network is made from. When it is absent, the AtollConfig's tenantNetworkTemplate; without that, a
	// Network of which only the type is said: vpc. It counts when the Network is made: a change of it changes no Network.
	//
	// +optional
	NetworkTemplate *NetworkTemplate `json:"networkTemplate,omitempty"`

	// The tenant's service range: the serviceCIDRs of the default Network, if the template names none. At most one range per IP
	// family.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(c, isCIDR(c)) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="two ranges must be one IPv4 and one IPv6"
	ServiceCIDRs []CIDR `json:"serviceCIDRs,omitempty"`

	// Who answers DNS questions in the default Network, if the template does not say.
	//
	// +optional
	DNS *NetworkDNS `json:"dns,omitempty"`

	// Who may write the tenant's Networks: for them the controller keeps the ClusterRole atoll:tenant:NAME and its binding. The
	// admission policies bound what they write (docs/api.md).
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Admins []TenantAdmin `json:"admins,omitempty"`

	// How much the tenant may have. What is absent is not bounded.
	//
	// +optional
	Quotas TenantQuotas `json:"quotas,omitempty"`
}

// NetworkTemplate is what a Network is made from. Its fields mean what they mean in a Network's spec.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'vpc' || !has(self.serviceCIDRs) || self.serviceCIDRs.size() == 0",fieldPath=".serviceCIDRs",message="only a Network of type vpc has service ranges of its own; Services of a flat one have their ClusterIPs"
type NetworkTemplate struct {
	// flat or vpc.
	//
	// +optional
	// +default="vpc"
	Type NetworkType `json:"type,omitempty"`

	// Its subnets, at most 64. None: one of the AtollConfig's defaultSubnet.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Subnets []Subnet `json:"subnets,omitempty"`

	// The ranges of its Services' own addresses: at most one per IP family. Only for type vpc.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(c, isCIDR(c)) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="two ranges must be one IPv4 and one IPv6"
	ServiceCIDRs []CIDR `json:"serviceCIDRs,omitempty"`

	// How its pods reach what is outside of the cluster.
	//
	// +optional
	Egress Egress `json:"egress,omitempty"`

	// What its pods reach of the infrastructure.
	//
	// +optional
	InfraAccess InfraAccess `json:"infraAccess,omitempty"`

	// Which pods of the default Network reach its pods.
	//
	// +optional
	InfraIngress InfraIngress `json:"infraIngress,omitempty"`

	// Who answers its DNS questions.
	//
	// +optional
	DNS *NetworkDNS `json:"dns,omitempty"`
}

// TenantAdmin is somebody who may write a tenant's Networks, as in an RBAC binding.
//
// +kubebuilder:validation:XValidation:rule="(self.kind == 'ServiceAccount') == has(self.__namespace__)",message="a ServiceAccount has a namespace, and no User or Group does"
type TenantAdmin struct {
	// User, Group or ServiceAccount.
	//
	// +required
	// +kubebuilder:validation:Enum=User;Group;ServiceAccount
	Kind string `json:"kind"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// The ServiceAccount's namespace.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// TenantQuotas bound what a tenant has.
type TenantQuotas struct {
	// Networks: of more the oldest are served, and the others say QuotaExceeded in their conditions.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Networks *int32 `json:"networks,omitempty"`
	// Pods of the tenant's namespaces that hold an address. One more gets no port, and an Event that says QuotaExceeded; it gets its
	// port when another goes. Pods that have an address keep it, whatever becomes of the quota.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pods *int32 `json:"pods,omitempty"`
	// Services of the tenant's namespaces that have a virtual address: neither headless ones nor aliases. Of more the oldest are served.
	// The others have no address and no name in any Network, and an Event that says QuotaExceeded.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Services *int32 `json:"services,omitempty"`
	// Gateways of the tenant's namespaces whose class is Atoll's. Of more the oldest are served, and the others say QuotaExceeded in their
	// conditions.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Gateways *int32 `json:"gateways,omitempty"`
}

// TenantStatus is what the controller has made of a Tenant.
type TenantStatus struct {
	// Pending: its default Network is not there yet. Ready: all of its Networks are. Degraded: some are not. Failed: its default
	// Network cannot be made. Terminating: it was deleted and waits for its Networks to go. Unknown: OVN's database does not answer.
	//
	// +optional
	Phase NetworkPhase `json:"phase,omitempty"`

	// The metadata.generation that this status tells of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// NetworksReady: every Network of it is Ready.
	// DNSReady: no Network of it says that its names are not answered.
	// Ready: every Network is, and none says that its names are not answered.
	// InUse: it was deleted, and Networks must go first; the message names them.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The name of its default Network, once that is there.
	//
	// +optional
	DefaultNetwork string `json:"defaultNetwork,omitempty"`
	// The number of its Networks.
	//
	// +optional
	Networks int64 `json:"networks"`
	// The number of its namespaces.
	//
	// +optional
	Namespaces int64 `json:"namespaces"`
	// The number of pods of its namespaces that hold an address, in whichever Network.
	//
	// +optional
	Pods int64 `json:"pods"`
	// The number of Services of its namespaces that have a virtual address, served or not.
	//
	// +optional
	Services int64 `json:"services"`
	// The number of Gateways of its namespaces whose class is Atoll's, served or not.
	//
	// +optional
	Gateways int64 `json:"gateways"`
	// What is used of the quotas that it has.
	//
	// +optional
	// +listType=map
	// +listMapKey=resource
	Quotas []TenantQuotaStatus `json:"quotas,omitempty"`

	// How its pods are isolated from all who are not the tenant's; that its Networks reach one another is no matter. Absent while its
	// default Network is not there, or one of its Networks says nothing of its own isolation.
	//
	// +optional
	Isolation *Isolation `json:"isolation,omitempty"`
}

// TenantQuotaStatus is what is used of one quota.
type TenantQuotaStatus struct {
	// networks, pods, services or gateways.
	//
	// +required
	Resource string `json:"resource"`
	// +required
	Used int64 `json:"used"`
	// +required
	Hard int64 `json:"hard"`
}
