package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConfigName is the name of the one AtollConfig that a cluster has.
const ConfigName = "cluster"

// ConfigValid is the condition of an AtollConfig that says whether its spec is in force.
const ConfigValid = "Valid"

// AtollConfig holds the settings of the cluster: what Atoll cannot find out by itself. A cluster has one, named
// cluster.
//
// The controller judges each spec. One that is valid is in force, and is copied to status.active, which all programs
// follow while they run. One that is not valid changes nothing, and the condition Valid says why.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=atollconfigs,singular=atollconfig,shortName=acfg
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`,description="Whether the spec is in force"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].reason`,description="Why it is or is not"
// +kubebuilder:printcolumn:name="Faces",type=string,priority=1,JSONPath=`.status.active.faceCIDRs`,description="The ranges of faces in force"
// +kubebuilder:printcolumn:name="Services",type=string,priority=1,JSONPath=`.status.active.serviceCIDRs`,description="The ranges of Services in force"
// +kubebuilder:printcolumn:name="DNS",type=string,priority=1,JSONPath=`.status.active.dns.addresses`,description="The addresses of the cluster's DNS in force"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="a cluster has one AtollConfig, and its name is cluster"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.active) || self.spec.defaultNetwork == oldSelf.spec.defaultNetwork || self.spec.defaultNetwork == oldSelf.status.active.defaultNetwork",fieldPath=".spec.defaultNetwork",message="the default Network cannot change: its pods run"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.active) || self.spec.defaultSubnet == oldSelf.spec.defaultSubnet || self.spec.defaultSubnet == oldSelf.status.active.defaultSubnet",fieldPath=".spec.defaultSubnet",message="the default subnet cannot change: pods hold addresses of it; list the subnets of new Networks"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.active) || self.spec.faceCIDRs == oldSelf.spec.faceCIDRs || self.spec.faceCIDRs == oldSelf.status.active.faceCIDRs",fieldPath=".spec.faceCIDRs",message="the ranges of faces cannot change: pods hold addresses of them"
type AtollConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The settings.
	//
	// +optional
	// +kubebuilder:default={}
	Spec AtollConfigSpec `json:"spec"`
	// What the controller made of them.
	//
	// +optional
	Status AtollConfigStatus `json:"status,omitempty"`
}

// AtollConfigList is a list of AtollConfigs.
//
// +kubebuilder:object:root=true
type AtollConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AtollConfig `json:"items"`
}

// AtollConfigSpec are the settings of a cluster.
type AtollConfigSpec struct {
	// The Network of pods that choose none. It cannot change once it is in force.
	//
	// +optional
	// +kubebuilder:default=default
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	DefaultNetwork string `json:"defaultNetwork"`

	// The range of a Network that lists no subnet. It cannot change once it is in force.
	//
	// +optional
	// +kubebuilder:default="10.128.0.0/14"
	DefaultSubnet CIDR `json:"defaultSubnet"`

	// The ranges of faces, the addresses by which Kubernetes knows the pods of vpc Networks: at most one per IP
	// family, and used by nothing else. Each node gets a block of 512 of each. []: pods have no faces. They cannot
	// change once they are in force.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:default={"100.64.0.0/10","fd64:a701::/64"}
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(c, isCIDR(c)) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="two ranges must be one IPv4 and one IPv6"
	FaceCIDRs []CIDR `json:"faceCIDRs"`

	// The cluster's ranges of Services, as the API server has them (--service-cluster-ip-range). No Network can have
	// them as its own serviceCIDRs, and Networks reach them only with direct access. Routes in running pods stay as
	// they are when this changes.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=16
	ServiceCIDRs []IPBlock `json:"serviceCIDRs"`

	// The ranges of Gateways, in each Network anew: at most one per IP family, no Services, and nothing outside that
	// pods are to reach. []: Gateways get no addresses. A Gateway whose address is no longer served gets another.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:default={"198.18.0.0/16","fd64:a702::/64"}
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(c, isCIDR(c)) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="two ranges must be one IPv4 and one IPv6"
	GatewayCIDRs []CIDR `json:"gatewayCIDRs"`

	// The ranges of flat Networks' pods. The admission policies let no Service and no EndpointSlice claim addresses of
	// them. No provider of another tenant takes addresses of them.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=64
	PodCIDRs []IPBlock `json:"podCIDRs"`
	// All ranges by which nodes and the control plane can be reached. The admission policies let no Service and no
	// EndpointSlice claim addresses of them. Without a range of an IP family, no Service gets external addresses of
	// it, and no EndpointSlice written by hand has addresses of it. No provider of another tenant takes
	// addresses of them.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=64
	NodeCIDRs []IPBlock `json:"nodeCIDRs"`

	// Further infrastructure, such as storage networks: only Networks with direct access reach it, and no Service or
	// EndpointSlice may claim it.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=64
	InfraCIDRs []IPBlock `json:"infraCIDRs"`

	// What no Network reaches, whatever access it has, and what no Service or EndpointSlice may claim: the control
	// plane's machines and OVN's databases, where they are not nodes, and networks of tunnels.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=64
	ClosedCIDRs []IPBlock `json:"closedCIDRs"`

	// Addresses of load balancers that kube-proxy may serve to pods of flat Networks.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=64
	LoadBalancerCIDRs []IPBlock `json:"loadBalancerCIDRs"`

	// Namespaces that are infrastructure without the label atoll.dev/infrastructure=true. The admission policies know
	// the two defaults by name.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:default={"kube-system","atoll-system"}
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	InfraNamespaces []string `json:"infraNamespaces"`

	// The cluster's DNS, as kubelets tell pods.
	//
	// +optional
	// +kubebuilder:default={}
	DNS ClusterDNS `json:"dns"`

	// How many connections a pod may have at a time.
	//
	// +optional
	// +kubebuilder:default={}
	MaxPodConnections MaxPodConnections `json:"maxPodConnections"`

	// Limits for compatible Networks.
	//
	// +optional
	// +kubebuilder:default={}
	Compatibility ClusterCompatibility `json:"compatibility"`

	// What nodes record of who talks to whom.
	//
	// +optional
	// +kubebuilder:default={}
	Flows ClusterFlows `json:"flows"`

	// The template for default Networks of Tenants that have none of their own. Absent: type vpc. It counts for
	// Networks that are made later.
	//
	// +optional
	TenantNetworkTemplate *NetworkTemplate `json:"tenantNetworkTemplate,omitempty"`
}

// ClusterDNS is the DNS that kubelets tell pods of.
type ClusterDNS struct {
	// The addresses that kubelets give to pods (clusterDNS). []: pods of Networks have no names.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=8
	Addresses []IP `json:"addresses"`
	// The Service that has these addresses.
	//
	// +optional
	// +kubebuilder:default={}
	Service ClusterDNSService `json:"service"`
	// kubelets' clusterDomain.
	//
	// +optional
	// +kubebuilder:default="cluster.local"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Domain string `json:"domain"`
}

// ClusterDNSService names the Service of the cluster's DNS.
type ClusterDNSService struct {
	// Its namespace.
	//
	// +optional
	// +kubebuilder:default="kube-system"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Its name.
	//
	// +optional
	// +kubebuilder:default="kube-dns"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// MaxPodConnections limits a pod's share of its node's connection table.
type MaxPodConnections struct {
	// Inside its Network, made by the pod or to it. 0: no limit. Pods of infrastructure namespaces in the default
	// Network have no limit.
	//
	// +optional
	// +kubebuilder:default=65536
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	InsideNetwork int64 `json:"insideNetwork"`
	// To what is outside its Network. 0: no limit.
	//
	// +optional
	// +kubebuilder:default=16384
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	OutsideNetwork int64 `json:"outsideNetwork"`
}

// ClusterCompatibility limits compatible Networks.
type ClusterCompatibility struct {
	// How many Networks mode Routed joins, directly and through others: 2 to 256. Each node of any of them carries all
	// of them. If more ask for it, or the limit is lowered, the older pairs have it, and others are refused.
	//
	// +optional
	// +kubebuilder:default=32
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=256
	MaxJoined int32 `json:"maxJoined"`
}

// FlowSampling says whether OVN samples what policies decide.
//
// +kubebuilder:validation:Enum=Off;On
type FlowSampling string

const (
	// FlowSamplingOff: nothing is sampled.
	FlowSamplingOff FlowSampling = "Off"
	// FlowSamplingOn: the first packet of each connection is, and each that is dropped.
	FlowSamplingOn FlowSampling = "On"
)

// ClusterFlows is what nodes record of who talks to whom.
type ClusterFlows struct {
	// Whether OVN samples what policies decide: the first packet of each connection, and each that is dropped. Each
	// node keeps an hour of it. On takes OVN 24.09.
	//
	// +optional
	// +kubebuilder:default="Off"
	Sampling FlowSampling `json:"sampling"`
	// The Networks that are sampled. []: all.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Networks []string `json:"networks"`
}

// IPBlock is an IP range in CIDR notation, with no bit set after the prefix. A single address is a range, too.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be a range in CIDR notation, for example 10.0.0.0/24 or fd00:10::/64"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",message="must begin with the first address of the range: 10.0.0.0/24, not 10.0.0.1/24"
type IPBlock string

// AtollConfigStatus is what the controller that leads made of an AtollConfig.
type AtollConfigStatus struct {
	// The metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Valid: the spec is in force. False: it is not, the message says why, and status.active stays in force.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// The settings in force: the last valid ones. Absent: there were none yet, and no pod gets a network.
	//
	// +optional
	Active *AtollConfigSpec `json:"active,omitempty"`
}
