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
	// Compatible: the compatibility that it asks for is there; only of a Network that asks for some.
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

	// Since when the Network has had each of its ranges. Of two Networks that are compatible with a third one and have ranges that overlap,
	// that one's pods dial the one that had its range first.
	//
	// +optional
	// +listType=map
	// +listMapKey=cidr
	// +kubebuilder:validation:MaxItems=130
	Ranges []RangeStatus `json:"ranges,omitempty"`

	// The number of pods that hold an address of the Network.
	//
	// +optional
	Pods int64 `json:"pods"`

	// How many Networks are joined to it by mode Routed, directly and by others, itself among them; at most 32. Absent when none
	// are. Each node of any of them carries all of them.
	//
	// +optional
	Joined int32 `json:"joined,omitempty"`

	// The Networks whose pods reach this one's, or are reached by them, and those that are to and are not, at most 64.
	//
	// +optional
	// +listType=map
	// +listMapKey=network
	// +listMapKey=direction
	// +kubebuilder:validation:MaxItems=64
	Compatibility []CompatibilityStatus `json:"compatibility,omitempty"`

	// How it is isolated from all who are not in it, other Networks of its tenant too. Absent while it is not known to be in OVN's
	// database.
	//
	// +optional
	Isolation *Isolation `json:"isolation,omitempty"`
}

// CompatibilityDirection says who of two Networks reaches whom.
//
// +kubebuilder:validation:Enum=Serves;Uses
type CompatibilityDirection string

// The directions.
const (
	// CompatibilityServes: the other one's pods reach this Network's.
	CompatibilityServes CompatibilityDirection = "Serves"
	// CompatibilityUses: this Network's pods reach the other one's.
	CompatibilityUses CompatibilityDirection = "Uses"
)

// CompatibilityStatus tells of compatibility with another Network, in one direction.
type CompatibilityStatus struct {
	// The other Network.
	//
	// +required
	Network string `json:"network"`
	// Serves: the other one's pods reach this Network's. Uses: this Network's pods reach the other one's.
	//
	// +required
	Direction CompatibilityDirection `json:"direction"`
	// ByFace: pods are known to each other by the addresses that Kubernetes knows them by, and no routers are joined. Routed: by
	// their own addresses, too.
	//
	// +required
	Mode CompatibilityMode `json:"mode"`

	// Whether the pods that reach the other ones dial them by their own addresses, too: always with mode Routed, and with ByFace
	// where it is offered and wanted and no address conflicts.
	//
	// +optional
	Addresses bool `json:"addresses,omitempty"`

	// Whether the pods that reach the other ones dial Services by the addresses that these have of the Network's serviceCIDRs, too.
	//
	// +optional
	ServiceAddresses bool `json:"serviceAddresses,omitempty"`
	// Active: it is so. Waiting: the other Network does not want it. Refused: it cannot be.
	//
	// +required
	// +kubebuilder:validation:Enum=Active;Waiting;Refused
	State string `json:"state"`
	// Why it waits or is refused, in one word.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// The same in a sentence, with what to do.
	//
	// +optional
	Message string `json:"message,omitempty"`
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
	// Since when the Network has served a subnet of that name without a break. Of two Networks with subnets whose switches would
	// have one number in OVN, the one that served its subnet first has the number.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
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

// RangeStatus tells since when a Network has had a range.
type RangeStatus struct {
	// The range, of a subnet or of Services.
	//
	// +required
	CIDR string `json:"cidr"`
	// When the controller first saw it; for those that the Network has had from its beginning, when that was made.
	//
	// +required
	Since metav1.Time `json:"since"`
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
