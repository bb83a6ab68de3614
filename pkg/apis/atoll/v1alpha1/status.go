package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkPhase is the state of a Network in one word.
//
// +kubebuilder:validation:Enum=Pending;Ready;Degraded;Failed;Terminating;Unknown
type NetworkPhase string

// The phases of a Network.
const (
	// NetworkPending is a Network that is not yet in OVN's database.
	NetworkPending NetworkPhase = "Pending"
	// NetworkReady is a Network that pods may attach to.
	NetworkReady NetworkPhase = "Ready"
	// NetworkDegraded is a Network of which a part is served; a condition says what is not, and why.
	NetworkDegraded NetworkPhase = "Degraded"
	// NetworkFailed is a Network of which nothing is served; a condition says why.
	NetworkFailed NetworkPhase = "Failed"
	// NetworkTerminating is a Network that was deleted and waits for its pods to go.
	NetworkTerminating NetworkPhase = "Terminating"
	// NetworkUnknown is a Network of which nobody can tell: OVN's database does not answer.
	NetworkUnknown NetworkPhase = "Unknown"
)

// NetworkStatus is what the controller has made of a Network.
type NetworkStatus struct {
	// Pending: not yet in OVN's database. Ready: pods may attach. Degraded: a part is served, and a condition says what
	// is not and why. Failed: nothing is served, and a condition says why. Terminating: it was deleted and waits for its
	// pods to go. Unknown: OVN's database does not answer.
	//
	// +optional
	Phase NetworkPhase `json:"phase,omitempty"`

	// The metadata.generation that this status tells of: if it is lower than the object's, the controller has not yet
	// seen the last change.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready: its rows are in OVN's database and every subnet is served. Unknown while the database does not answer.
	// SubnetsValid: no subnet contradicts itself or another.
	// ServiceCIDRsValid: every service range is served; only of a Network that has some.
	// PodsAttached: every pod that names the Network has its port.
	// InUse: it was deleted, and pods that hold addresses must go first; the message names them.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The addresses of each range of each subnet.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=cidr
	Subnets []SubnetStatus `json:"subnets,omitempty"`

	// The addresses of each service range that is served.
	//
	// +optional
	// +listType=map
	// +listMapKey=cidr
	ServiceCIDRs []ServiceCIDRStatus `json:"serviceCIDRs,omitempty"`

	// The number of pods that hold an address of the Network.
	//
	// +optional
	Pods int64 `json:"pods"`
}

// SubnetStatus counts the addresses of one range of a subnet.
type SubnetStatus struct {
	// The name of the subnet.
	//
	// +required
	Name string `json:"name"`
	// The range.
	//
	// +required
	CIDR string `json:"cidr"`
	// The router's address in the range.
	//
	// +optional
	Gateway string `json:"gateway,omitempty"`
	// The number of addresses that pods hold.
	//
	// +required
	Used int64 `json:"used"`
	// The number of addresses that pods can still get. IPv6 ranges can have more than a JSON number can carry: it stops
	// at 9007199254740991 (2^53-1).
	//
	// +required
	Free int64 `json:"free"`
}

// ServiceCIDRStatus counts the addresses of one service range.
type ServiceCIDRStatus struct {
	// The range.
	//
	// +required
	CIDR string `json:"cidr"`
	// The number of addresses that Services hold.
	//
	// +required
	Used int64 `json:"used"`
	// The number of addresses that can still be had, at most 9007199254740991 (2^53-1).
	//
	// +required
	Free int64 `json:"free"`
}
