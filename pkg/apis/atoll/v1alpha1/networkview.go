package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkView shows a namespace a Network that its pods may use or are in: what the Network offers and how it is, and
// the addresses of the namespace's own pods. It shows nothing of other namespaces.
//
// It has the Network's name. The controller makes it, keeps it up to date, and deletes it when the namespace may no
// longer use the Network and has no pod in it. Nobody else needs to write one.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,path=networkviews,singular=networkview,shortName=nv
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.type`,description="flat or vpc"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="The Network's state in one word"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,description="Why it is Ready or not"
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`,description="Pods of this namespace that hold an address"
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting`,description="Pods of this namespace that have no port"
// +kubebuilder:printcolumn:name="Ranges",type=string,JSONPath=`.status.ranges`,description="Where pods' addresses are"
// +kubebuilder:printcolumn:name="Egress",type=string,priority=1,JSONPath=`.status.egress`,description="Where pods can call out"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NetworkView struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the namespace may know of the Network.
	//
	// +optional
	Status NetworkViewStatus `json:"status,omitempty"`
}

// NetworkViewList is a list of NetworkViews.
//
// +kubebuilder:object:root=true
type NetworkViewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NetworkView `json:"items"`
}

// NetworkViewStatus is what a namespace may know of a Network.
type NetworkViewStatus struct {
	// As in the Network's spec.
	//
	// +optional
	Type NetworkType `json:"type,omitempty"`
	// As in the Network's status.
	//
	// +optional
	Phase NetworkPhase `json:"phase,omitempty"`
	// Why it is Ready or not, in one word.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// The same in a sentence. If it is about others, it says whom to ask.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// Which of the cluster's addresses pods cannot dial because the Network has the same, as in the condition
	// CIDRConflict.
	//
	// +optional
	// +listType=atomic
	Conflicts []string `json:"conflicts,omitempty"`
	// The CIDRs of all subnets in one line, for people.
	//
	// +optional
	Ranges string `json:"ranges,omitempty"`
	// The ranges of the subnets.
	//
	// +optional
	// +listType=atomic
	Subnets []ViewedSubnet `json:"subnets,omitempty"`
	// The ranges for Services' addresses inside the Network.
	//
	// +optional
	// +listType=atomic
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
	// As in the Network's spec.
	//
	// +optional
	Egress string `json:"egress,omitempty"`
	// As in the Network's spec.
	//
	// +optional
	InfraAccess string `json:"infraAccess,omitempty"`
	// dns.mode, as in the Network's spec.
	//
	// +optional
	DNS string `json:"dns,omitempty"`
	// How many pods of this namespace hold an address of the Network.
	//
	// +required
	Pods int64 `json:"pods"`
	// How many pods of this namespace have no address or no port yet; their Events say why.
	//
	// +required
	Waiting int64 `json:"waiting"`
	// The first 100 pods that hold an address, by name. The annotation atoll.dev/addresses of each pod has the same
	// for all.
	//
	// +optional
	// +listType=atomic
	Addresses []ViewedPod `json:"addresses,omitempty"`
}

// ViewedSubnet is one range of a subnet.
type ViewedSubnet struct {
	// The name of the subnet.
	//
	// +required
	Name string `json:"name"`
	// The range.
	//
	// +required
	CIDR string `json:"cidr"`
	// The router's address.
	//
	// +optional
	Gateway string `json:"gateway,omitempty"`
	// How many addresses pods of this namespace hold. How many are free is not shown: in a shared Network it would
	// tell what others do.
	//
	// +required
	Used int64 `json:"used"`
}

// ViewedPod is a pod of the namespace.
type ViewedPod struct {
	// Its name.
	//
	// +required
	Pod string `json:"pod"`
	// The name of its subnet.
	//
	// +required
	Subnet string `json:"subnet"`
	// Its own addresses in the Network.
	//
	// +required
	// +listType=atomic
	Addresses []string `json:"addresses"`
}
