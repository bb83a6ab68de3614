package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Tenant is a customer, a department or an environment that owns namespaces and Networks: the namespaces whose label
// atoll.dev/tenant has its name, and the Networks whose spec.tenant does.
//
// The controller makes its default Network, of the same name, from a template. Pods of its namespaces join that
// Network if neither they nor their namespace name another. The Network is deleted with the Tenant; both wait until
// the pods have gone.
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
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('--')",message="the name of a Tenant has no two dashes in a row: they separate a tenant's name from the rest in the names of its Networks"
type Tenant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the owner asks for.
	//
	// +optional
	Spec TenantSpec `json:"spec,omitempty"`
	// What the controller made of it. Only the controller writes it.
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
	// What the default Network is made from. Absent: the AtollConfig's tenantNetworkTemplate; without that, type vpc
	// and nothing else. A change of the template changes no Network.
	//
	// +optional
	NetworkTemplate *NetworkTemplate `json:"networkTemplate,omitempty"`

	// The default Network's serviceCIDRs, if the template names none and its type is vpc. At most one range per IP
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

	// Who may write the tenant's Networks, within bounds: the controller binds the ClusterRole atoll:tenant:NAME to
	// them. Absent: nobody.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Admins []TenantAdmin `json:"admins,omitempty"`

	// How much the tenant may have. What is absent has no limit.
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

	// The subnets, at most 64. Absent: one, with the AtollConfig's defaultSubnet.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Subnets []Subnet `json:"subnets,omitempty"`

	// Ranges for its Services' own addresses: at most one per IP family. Only for type vpc.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(c, isCIDR(c)) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="two ranges must be one IPv4 and one IPv6"
	ServiceCIDRs []CIDR `json:"serviceCIDRs,omitempty"`

	// How its pods reach what is outside the cluster.
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

// TenantAdmin is a subject that may write a tenant's Networks, as in an RBAC binding.
//
// +kubebuilder:validation:XValidation:rule="(self.kind == 'ServiceAccount') == has(self.__namespace__)",message="a ServiceAccount has a namespace, and no User or Group does"
type TenantAdmin struct {
	// User, Group or ServiceAccount.
	//
	// +required
	// +kubebuilder:validation:Enum=User;Group;ServiceAccount
	Kind string `json:"kind"`
	// The name, as in an RBAC binding.
	//
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
	// Networks that are served: the default one first, then the oldest. The others say QuotaExceeded. A lower quota
	// ends the service of the youngest at once, with their pods.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Networks *int32 `json:"networks,omitempty"`
	// Pods of the tenant's namespaces that hold an address, in any Network. A pod beyond it waits, with an Event
	// QuotaExceeded, until another goes. A lower quota takes no address away.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pods *int32 `json:"pods,omitempty"`
	// Services of the tenant's namespaces with a ClusterIP, in any Network; headless ones and aliases do not count.
	// The oldest are served. The others have no address and no name in any Network, and an Event QuotaExceeded. A
	// lower quota ends the service of the youngest at once.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Services *int32 `json:"services,omitempty"`
	// Gateways of the tenant's namespaces whose class is Atoll's. The oldest are served. The others have no address,
	// and say QuotaExceeded. A lower quota ends the service of the youngest at once.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Gateways *int32 `json:"gateways,omitempty"`
}

// TenantStatus is what the controller has made of a Tenant.
type TenantStatus struct {
	// Pending: the default Network does not exist yet. Ready: all of its Networks are ready. Degraded: one is not.
	// Failed: the default Network cannot be made. Terminating: deleted, and waiting for its Networks. Unknown: OVN's
	// database does not answer.
	//
	// +optional
	Phase NetworkPhase `json:"phase,omitempty"`

	// The metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// NetworksReady: every Network of the tenant is Ready.
	// DNSReady: no Network of the tenant says that its names are not answered.
	// Ready: NetworksReady, and DNSReady is not false.
	// InUse: only while it is being deleted; the message names Networks that must go first.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The name of its default Network, once that exists.
	//
	// +optional
	DefaultNetwork string `json:"defaultNetwork,omitempty"`
	// How many Networks it has.
	//
	// +optional
	Networks int64 `json:"networks"`
	// How many namespaces it has.
	//
	// +optional
	Namespaces int64 `json:"namespaces"`
	// How many pods of its namespaces hold an address, in any Network.
	//
	// +optional
	Pods int64 `json:"pods"`
	// How many Services of its namespaces count for the quota, served or not.
	//
	// +optional
	Services int64 `json:"services"`
	// How many Gateways of its namespaces count for the quota, served or not.
	//
	// +optional
	Gateways int64 `json:"gateways"`
	// What is used of each quota. If used is more than hard, the youngest are not served; a pod that has an address
	// keeps it.
	//
	// +optional
	// +listType=map
	// +listMapKey=resource
	Quotas []TenantQuotaStatus `json:"quotas,omitempty"`

	// How its pods are isolated from all pods that are not the tenant's; its Networks may reach one another. Absent
	// while the default Network does not exist, or one of its Networks says nothing of its isolation.
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
	// How many there are.
	//
	// +required
	Used int64 `json:"used"`
	// The quota.
	//
	// +required
	Hard int64 `json:"hard"`
}
