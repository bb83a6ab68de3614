package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkView shows a namespace a Network that its pods may use or are in, as far as that is the namespace's business: what
// it offers and how it does, and the addresses of the namespace's own pods. Nothing in it is another namespace's.
//
// It has the Network's name. The controller makes it, keeps it up to date, and deletes it when the namespace may no longer use the
// Network and has no pod in it; nobody else needs to write one.
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
	// +optional
	Type NetworkType `json:"type,omitempty"`
	// The Network's state, as in its own status.
	//
	// +optional
	Phase NetworkPhase `json:"phase,omitempty"`
	// Why it is Ready or not, in one word and in words. Where the words are about others, they say whom to ask.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// What of the cluster's addresses pods cannot dial because the Network has the same, or why it gives others away.
	//
	// +optional
	// +listType=atomic
	Conflicts []string `json:"conflicts,omitempty"`
	// The CIDRs of all subnets, for people.
	//
	// +optional
	Ranges string `json:"ranges,omitempty"`
	// +optional
	// +listType=atomic
	Subnets []ViewedSubnet `json:"subnets,omitempty"`
	// Where its Services have addresses of the Network's own.
	//
	// +optional
	// +listType=atomic
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
	// As in the Network's spec.
	//
	// +optional
	Egress string `json:"egress,omitempty"`
	// +optional
	InfraAccess string `json:"infraAccess,omitempty"`
	// Who answers for names: its mode as in the Network's spec.
	//
	// +optional
	DNS string `json:"dns,omitempty"`
	// The pods of this namespace that hold an address of the Network, and those that wait for one or for their port; Events on them say
	// why.
	//
	// +required
	Pods int64 `json:"pods"`
	// +required
	Waiting int64 `json:"waiting"`
	// The first of those that hold an address, by name: at most 100. The annotation atoll.dev/addresses of each pod has the same for all.
	//
	// +optional
	// +listType=atomic
	Addresses []ViewedPod `json:"addresses,omitempty"`
}

// ViewedSubnet is one range of a subnet.
type ViewedSubnet struct {
	// +required
	Name string `json:"name"`
	// +required
	CIDR string `json:"cidr"`
	// The router's address there.
	//
	// +optional
	Gateway string `json:"gateway,omitempty"`
	// How many of its addresses pods of this namespace hold.
	//
	// +required
	Used int64 `json:"used"`
}

// ViewedPod is a pod of the namespace.
type ViewedPod struct {
	// +required
	Pod string `json:"pod"`
	// +required
	Subnet string `json:"subnet"`
	// Its own addresses in the Network.
	//
	// +required
	// +listType=atomic
	Addresses []string `json:"addresses"`
}
