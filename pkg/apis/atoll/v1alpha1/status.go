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
	// Pending: not yet in OVN's database. Ready: pods may attach. Degraded: a part is served, and a condition says
	// which is not and why. Failed: nothing is served, and a condition says why. Terminating: deleted, and waiting for
	// its pods. Unknown: OVN's database does not answer.
	//
	// +optional
	Phase NetworkPhase `json:"phase,omitempty"`

	// The metadata.generation that this status describes. If it is lower than the object's, the controller has not
	// seen the last change.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready: all of the Network is in OVN's database; Unknown while the database does not answer.
	// SubnetsValid: every listed subnet is served, and no other.
	// ServiceCIDRsValid: every service range is served; only of a Network that has some.
	// PodsAttached: every pod that belongs to the Network has its port.
	// CIDRConflict: ranges overlap the infrastructure's; the message says what pods cannot reach.
	// DNSReady: only of a Network with dns.mode service, or whose names cannot be answered.
	// Compatible: all that it asks of others is there; only of a Network that asks for something.
	// InUse: only while it is being deleted; the message names pods that must go first.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// For each range of each subnet that is served: its addresses.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=cidr
	Subnets []SubnetStatus `json:"subnets,omitempty"`

	// For each service range that is served: its addresses.
	//
	// +optional
	// +listType=map
	// +listMapKey=cidr
	ServiceCIDRs []ServiceCIDRStatus `json:"serviceCIDRs,omitempty"`

	// Since when the Network has had each of its ranges. If ranges of two Networks overlap that are compatible with a
	// third, pods of the third dial the one that had its range first.
	//
	// +optional
	// +listType=map
	// +listMapKey=cidr
	// +kubebuilder:validation:MaxItems=130
	Ranges []RangeStatus `json:"ranges,omitempty"`

	// How many pods hold an address of the Network.
	//
	// +optional
	Pods int64 `json:"pods"`

	// How many Networks mode Routed joins to this one, directly and through others, itself included. Absent when none
	// are. Each node of any of them carries all of them.
	//
	// +optional
	Joined int32 `json:"joined,omitempty"`

	// The Networks whose pods reach this one's or are reached by them, and those where this was asked for and is not
	// so; at most 64.
	//
	// +optional
	// +listType=map
	// +listMapKey=network
	// +listMapKey=direction
	// +kubebuilder:validation:MaxItems=64
	Compatibility []CompatibilityStatus `json:"compatibility,omitempty"`

	// How it is isolated from all pods outside it, those of the tenant's other Networks included. Absent while the
	// Network is not known to be in OVN's database, or a part of its compatibility waits (ChangesTooOften).
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
	// Serves: the other Network's pods reach this one's. Uses: this Network's pods reach the other's.
	//
	// +required
	Direction CompatibilityDirection `json:"direction"`
	// ByFace: by faces, and no routers are joined. Routed: by own addresses, too.
	//
	// +required
	Mode CompatibilityMode `json:"mode"`

	// Whether pods are dialled by their own addresses, too: always with Routed; with ByFace if it is offered and asked
	// for, and no address conflicts.
	//
	// +optional
	Addresses bool `json:"addresses,omitempty"`

	// Whether Services are also dialled by addresses of the provider's serviceCIDRs.
	//
	// +optional
	ServiceAddresses bool `json:"serviceAddresses,omitempty"`
	// Active: it is so. Waiting: the other Network does not want it. Refused: it cannot be.
	//
	// +required
	// +kubebuilder:validation:Enum=Active;Waiting;Refused
	State string `json:"state"`
	// Why it is not active, in one word.
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
	// Since when the Network has served a subnet of this name without a break. If two subnets would have the same
	// number in OVN, the one that was served first has it.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// How many addresses pods hold.
	//
	// +required
	Used int64 `json:"used"`
	// How many addresses pods can still get, at most 9007199254740991 (2^53-1), the largest number that JSON carries.
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
	// When the controller first saw it; for ranges that the Network had from the beginning, when the Network was
	// created.
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
	// How many addresses Services hold.
	//
	// +required
	Used int64 `json:"used"`
	// How many addresses are free, at most 9007199254740991 (2^53-1).
	//
	// +required
	Free int64 `json:"free"`
}
