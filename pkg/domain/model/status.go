package model

import (
	"fmt"
	"net/netip"
	"time"
)

// Phase is a Network's state in one word.
type Phase string

// The phases of a Network.
const (
	// Pending: not yet in the database.
	Pending Phase = "Pending"
	// Ready: its rows are written and pods may attach.
	Ready Phase = "Ready"
	// Degraded: part of it is served; a condition says what is not and why.
	Degraded Phase = "Degraded"
	// Failed: nothing of it is served; a condition says why.
	Failed Phase = "Failed"
	// Terminating: it was deleted and waits for its pods.
	Terminating Phase = "Terminating"
	// Unknown: the database does not answer.
	Unknown Phase = "Unknown"
)

// NetworkStatus is what the controller reports of a Network.
type NetworkStatus struct {
	ObservedGeneration int64
	Phase              Phase
	// Conditions, sorted by Type. The time of a transition is added by the writer.
	Conditions []Condition
	Subnets    []SubnetStatus
	// ServiceCIDRs are the service ranges that are served.
	ServiceCIDRs []ServiceCIDRStatus
	// Ranges are all of which others may dial addresses, as its owner wrote them, each once. Since when each is there the writer
	// adds: Created is when the Network was made.
	Ranges  []netip.Prefix
	Created time.Time
	// Pods counts the pods that hold an address.
	Pods int64
	// Compatibility is that with others, sorted.
	Compatibility []CompatibilityStatus
	// Joined is how many Networks are joined to it by mode Routed, directly and by others, itself among them; 0: none are.
	Joined int
	// Isolation is nil while nothing is known of it.
	Isolation *Isolation
}

// CompatibilityStatus is compatibility with another Network in one direction, as it is reported.
type CompatibilityStatus struct {
	Network string
	// Uses: this Network's pods reach the other's; else the other's reach this one's.
	Uses bool
	// Mode is the way, or the one that is asked for.
	Mode CompatibilityMode
	// Addresses: pods are dialled by their own addresses, too.
	Addresses bool
	// ServiceAddresses: Services are dialled by addresses of the provider's own ranges, too.
	ServiceAddresses bool
	// State is one of the words below. Problem says why it is not active, or not all that is asked for.
	State   CompatibilityState
	Problem Problem
}

// CompatibilityState is the state of two Networks' compatibility in one word.
type CompatibilityState string

// The states.
const (
	CompatibilityActive CompatibilityState = "Active"
	// CompatibilityWaiting: the other Network does not want it.
	CompatibilityWaiting CompatibilityState = "Waiting"
	// CompatibilityRefused: their addresses, or their types, do not allow it.
	CompatibilityRefused CompatibilityState = "Refused"
)

// Condition is a metav1.Condition without its times.
type Condition struct {
	Type   string
	Status bool
	// Unknown: nobody can tell, and Status says nothing.
	Unknown bool
	Reason  string
	Message string
}

// The types of the conditions of a Network.
const (
	// ConditionReady: the Network's rows are in the database and every subnet is served.
	ConditionReady = "Ready"
	// ConditionSubnetsValid: no subnet contradicts itself or another.
	ConditionSubnetsValid = "SubnetsValid"
	// ConditionServiceCIDRsValid: every service range is served. It is there while the Network has some.
	ConditionServiceCIDRsValid = "ServiceCIDRsValid"
	// ConditionPodsAttached: every pod that named the Network got its port.
	ConditionPodsAttached = "PodsAttached"
	// ConditionCIDRConflict is there while addresses of the Network are also the infrastructure's: nodes', the default
	// Network's or faces.
	ConditionCIDRConflict = "CIDRConflict"
	// ConditionDNSReady is there while names are answered by a Service of the Network, or cannot be answered.
	ConditionDNSReady = "DNSReady"
	// ConditionCompatible is there while the Network asks for compatibility with others.
	ConditionCompatible = "Compatible"
	// ConditionInUse is there while a deleted Network waits for its pods, and names them.
	ConditionInUse = "InUse"
)

// SubnetStatus counts the addresses of one CIDR of a subnet.
type SubnetStatus struct {
	Name string
	// CIDR as served.
	CIDR string
	// Gateway is the router's address in it.
	Gateway string
	// Used and Free count addresses that pods hold and can still get. Free is at most 2^53-1, so that
	// every JSON reader can carry it.
	Used, Free int64
}

// ServiceCIDRStatus counts the addresses of one service range.
type ServiceCIDRStatus struct {
	CIDR string
	// Used and Free are as in SubnetStatus.
	Used, Free int64
}

// Problem says why something that a user asked for is not done.
type Problem struct {
	// Reason is one CamelCase word, the Reason of an Event and of a condition.
	Reason string
	// Message says in plain words what is wrong and what to do.
	Message string
}

// Problemf makes one whose message is put together as by fmt.Sprintf.
func Problemf(reason, format string, args ...any) Problem {
	return Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// The reasons of Problems.
const (
	ReasonUnknownKey                 = "UnknownKey"
	ReasonNetworkNotFound            = "NetworkNotFound"
	ReasonNetworkTerminating         = "NetworkTerminating"
	ReasonNetworkInvalid             = "NetworkInvalid"
	ReasonNetworkReplaced            = "NetworkReplaced"
	ReasonNamespaceNotAllowed        = "NamespaceNotAllowed"
	ReasonInvalidNICs                = "InvalidNICs"
	ReasonSubnetNotFound             = "SubnetNotFound"
	ReasonSubnetsOverlap             = "SubnetsOverlap"
	ReasonSubnetInvalid              = "SubnetInvalid"
	ReasonClusterDNSNotFound         = "ClusterDNSNotFound"
	ReasonClusterDNSNotSet           = "ClusterDNSNotSet"
	ReasonDNSServiceNotFound         = "DNSServiceNotFound"
	ReasonDNSServiceNotReached       = "DNSServiceNotReached"
	ReasonDNSServiceWithoutEndpoints = "DNSServiceWithoutEndpoints"
	ReasonNamesNotServed             = "NamesNotServed"
	ReasonSubnetInUse                = "SubnetInUse"
	ReasonSubnetFull                 = "SubnetFull"
	ReasonAddressOutsideSubnet       = "AddressOutsideSubnet"
	ReasonAddressReserved            = "AddressReserved"
	ReasonAddressInUse               = "AddressInUse"
	ReasonVPCIDInUse                 = "VPCIDInUse"
	ReasonDatabaseRefused            = "DatabaseRefused"
	ReasonDatabaseUnreachable        = "DatabaseUnreachable"
	ReasonAnnotationRefused          = "AnnotationRefused"
	ReasonDatabaseBehind             = "DatabaseBehind"
	// These a node's agent tells.
	ReasonControllerAway        = "ControllerAway"
	ReasonNorthdBehind          = "NorthdBehind"
	ReasonSouthboundUnreachable = "SouthboundUnreachable"
	ReasonSouthboundRefused     = "SouthboundRefused"
	ReasonOVNControllerBehind   = "OVNControllerBehind"
	ReasonSwitchAway            = "SwitchAway"
	ReasonAgentBehind           = "AgentBehind"
	ReasonPacketsDropped        = "PacketsDropped"
	ReasonConnectionsRefused    = "ConnectionsRefused"
	ReasonOverlapsInfra         = "OverlapsInfrastructure"
	ReasonNoFaces               = "NoFaces"
	ReasonFaceLost              = "FaceLost"
	ReasonServiceCIDRInvalid    = "ServiceCIDRInvalid"
	ReasonServiceCIDROverlaps   = "ServiceCIDROverlaps"
	ReasonServiceCIDRFull       = "ServiceCIDRFull"
	ReasonServiceIPsInvalid     = "InvalidServiceIPs"
	ReasonAddressOutsideRange   = "AddressOutsideServiceCIDR"
	ReasonAddressChanged        = "ServiceAddressChanged"
	ReasonNoIPv6                = "NoAddressOfIPv6"
	ReasonServiceTooLarge       = "ServiceTooLarge"
	ReasonServicesTooLarge      = "ServicesTooLarge"
	ReasonPortsWait             = "PortsWait"
	ReasonChangesTooOften       = "ChangesTooOften"
	ReasonAddressConflict       = "AddressConflict"
	ReasonTooManyJoined         = "TooManyJoined"
	ReasonNotJoined             = "NotJoined"
	ReasonAddressesNotUsed      = "AddressesNotUsed"
	ReasonAddressesNotOffered   = "AddressesNotOffered"
	ReasonServiceCIDRsNotUsed   = "ServiceCIDRsNotUsed"
	ReasonServiceCIDRsOffered   = "ServiceCIDRsOffered"
	ReasonNotUsed               = "NotUsed"
	ReasonNotOffered            = "NotOffered"
	ReasonFlatNetwork           = "FlatNetwork"
)
