package model

import "net/netip"

// GatewayClassStatus is what the controller reports of a GatewayClass.
type GatewayClassStatus struct {
	ObservedGeneration int64
	Conditions         []Condition
	// Features that it serves, by the names that Gateway API has for them, sorted.
	Features []string
}

// GatewayStatus is what the controller reports of a Gateway.
type GatewayStatus struct {
	ObservedGeneration int64
	Conditions         []Condition
	Addresses          []netip.Addr
	// Listeners, in the Gateway's order.
	Listeners []ListenerStatus
}

// ListenerStatus is what the controller reports of a listener.
type ListenerStatus struct {
	Name       string
	Kinds      []RouteKind
	Attached   int32
	Conditions []Condition
}

// RouteStatus is what the controller reports of a route: something for each of its parents that is a Gateway of ours.
type RouteStatus struct {
	ObservedGeneration int64
	Parents            []ParentStatus
}

// ParentStatus is what the controller reports of a route at one parent.
type ParentStatus struct {
	Parent     ParentRef
	Conditions []Condition
}

// The conditions of Gateway API that the controller sets. (sigs.k8s.io/gateway-api/apis/v1.)
const (
	ConditionAccepted         = "Accepted"
	ConditionProgrammed       = "Programmed"
	ConditionResolvedRefs     = "ResolvedRefs"
	ConditionConflicted       = "Conflicted"
	ConditionSupportedVersion = "SupportedVersion"
)

// The reasons of these conditions.
const (
	ReasonAccepted             = "Accepted"
	ReasonProgrammed           = "Programmed"
	ReasonResolvedRefs         = "ResolvedRefs"
	ReasonNoConflicts          = "NoConflicts"
	ReasonSupportedVersion     = "SupportedVersion"
	ReasonUnsupportedVersion   = "UnsupportedVersion"
	ReasonInvalid              = "Invalid"
	ReasonInvalidParameters    = "InvalidParameters"
	ReasonPending              = "Pending"
	ReasonListenersNotValid    = "ListenersNotValid"
	ReasonUnsupportedAddress   = "UnsupportedAddress"
	ReasonAddressNotAssigned   = "AddressNotAssigned"
	ReasonAddressNotUsable     = "AddressNotUsable"
	ReasonUnsupportedProtocol  = "UnsupportedProtocol"
	ReasonProtocolConflict     = "ProtocolConflict"
	ReasonInvalidRouteKinds    = "InvalidRouteKinds"
	ReasonNoMatchingParent     = "NoMatchingParent"
	ReasonNotAllowedByListener = "NotAllowedByListeners"
	ReasonInvalidKind          = "InvalidKind"
	ReasonRefNotPermitted      = "RefNotPermitted"
	ReasonBackendNotFound      = "BackendNotFound"
)
