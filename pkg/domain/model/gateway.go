package model

import (
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/match"
)

// GatewayController is the name by which a GatewayClass asks for Atoll's load balancers.
const GatewayController = Group + "/vip"

// GatewayKey names a Gateway.
type GatewayKey struct{ Namespace, Name string }

// String is the key as users write it: namespace/name.
func (k GatewayKey) String() string { return k.Namespace + "/" + k.Name }

// RouteKind is a kind of routes that Atoll serves.
type RouteKind string

// The kinds of routes.
const (
	TCPRoute RouteKind = "TCPRoute"
	UDPRoute RouteKind = "UDPRoute"
)

// RouteKey names a route.
type RouteKey struct {
	Kind            RouteKind
	Namespace, Name string
}

// GrantKey names a ReferenceGrant.
type GrantKey struct{ Namespace, Name string }

// GatewayClass is a GatewayClass of GatewayController.
type GatewayClass struct {
	Name, UID  string
	Generation int64
	// Parameters: it refers to parameters, of which Atoll knows none.
	Parameters bool
	// Version of the Gateway API that the cluster has, such as v1.6.3; empty when it does not say.
	Version string
}

// Gateway is a Gateway of any class.
type Gateway struct {
	Key        GatewayKey
	UID        string
	Generation int64
	Created    time.Time
	Class      string
	Listeners  []Listener
	// Addresses that it asks for; with none it gets one of each IP family.
	Addresses []GatewayAddress
	// Parameters: it refers to parameters, of which Atoll knows none.
	Parameters bool
	// Held are the addresses that its status says it has: what an earlier controller gave.
	Held []netip.Addr
}

// GatewayAddress is a wish for an address.
type GatewayAddress struct {
	// Addr is the zero value when any will do.
	Addr netip.Addr
	// Unsupported says why nobody can have it; empty when somebody could.
	Unsupported string
}

// Listener is a port of a Gateway.
type Listener struct {
	Name string
	// Protocol is TCP or UDP; empty for one that Atoll does not serve, which Asked names.
	Protocol Protocol
	Asked    string
	Port     uint16
	// Kinds are the kinds of routes that may attach and that Atoll serves on this protocol. Others: it names more.
	Kinds  []RouteKind
	Others bool
	// From says from which namespaces.
	From RoutesFrom
	// Selector selects them where From is RoutesFromSelector.
	Selector *match.Selector
}

// RoutesFrom says from which namespaces routes may attach to a listener.
type RoutesFrom string

// The choices. What this version does not know is none.
const (
	RoutesFromNone     RoutesFrom = "None"
	RoutesFromSame     RoutesFrom = "Same"
	RoutesFromAll      RoutesFrom = "All"
	RoutesFromSelector RoutesFrom = "Selector"
)

// Route is a TCPRoute or UDPRoute.
type Route struct {
	Key        RouteKey
	UID        string
	Generation int64
	Created    time.Time
	// Parents are the Gateways that it names, in its order; parents of other kinds are left out.
	Parents  []ParentRef
	Backends []RouteBackend
}

// ParentRef names a Gateway, or some of its listeners.
type ParentRef struct {
	Gateway GatewayKey
	// Own: the namespace is not written, and so is the route's own.
	Own bool
	// Section is the name of a listener and Port its port; empty and zero mean any.
	Section string
	Port    uint16
}

// RouteBackend is a part of a route's traffic.
type RouteBackend struct {
	// Kind is empty for a Service, else what it is instead.
	Kind    string
	Service ServiceKey
	// Port of the Service; 0 when none is named.
	Port uint16
	// Weight is its part of the traffic, relative to the others'.
	Weight int32
}

// Grant is a ReferenceGrant as far as it lets routes refer to Services of its namespace.
type Grant struct {
	Key  GrantKey
	From []GrantFrom
	// Services are the names of the Services; AllServices: any.
	Services    []string
	AllServices bool
}

// GrantFrom is whose routes may refer.
type GrantFrom struct {
	Kind      RouteKind
	Namespace string
}

// Allows reports whether routes of a kind and namespace may refer to a Service of the grant's namespace.
func (g Grant) Allows(kind RouteKind, namespace, service string) bool {
	from := false
	for _, f := range g.From {
		from = from || f.Kind == kind && f.Namespace == namespace
	}
	return from && (g.AllServices || slices.Contains(g.Services, service))
}

// Transport is the protocol of the listeners that routes of a kind attach to.
func (k RouteKind) Transport() Protocol {
	if k == UDPRoute {
		return UDP
	}
	return TCP
}
