package model

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// ServiceKey names a Service.
type ServiceKey struct{ Namespace, Name string }

// String is the key as users write it: namespace/name.
func (k ServiceKey) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys.
func (k ServiceKey) Compare(o ServiceKey) int {
	return cmp.Or(strings.Compare(k.Namespace, o.Namespace), strings.Compare(k.Name, o.Name))
}

// SliceKey names an EndpointSlice.
type SliceKey struct{ Namespace, Name string }

// Protocol is a transport protocol as OVN names it.
type Protocol string

// The protocols of Services.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	SCTP Protocol = "sctp"
)

// Service is a Service that has virtual addresses.
type Service struct {
	Key     ServiceKey
	UID     string
	Created time.Time
	// ClusterIPs are the virtual addresses, at most one per IP family.
	ClusterIPs []netip.Addr
	// Ports are the first MaxServicePorts, and Beyond counts those that are not served since they come after these.
	Ports  []ServicePort
	Beyond int
	// Selector holds the labels of the pods behind it; none when somebody writes its slices by hand.
	Selector map[string]string
	// Affinity is for how many seconds a client keeps its endpoint; 0: it need not.
	Affinity int32
	// Wanted are the addresses that AnnotationServiceIPs asks for, at most one per IP family; WantedError says in plain words
	// why it cannot be followed.
	Wanted      []netip.Addr
	WantedError string
	// Assigned is what an earlier decision wrote on the Service; nil when there is none, none that can be read, or one of
	// another Service.
	Assigned *ServiceAddresses
	// Published are the addresses of its load balancer that every client may dial, each once, in the order of the Service.
	Published []netip.Addr
	// OfAnotherProxy: whoever set the label service.kubernetes.io/service-proxy-name leads its clients, and neither kube-proxy nor OVN does.
	OfAnotherProxy bool
	// Local: clients are to reach endpoints of their own node only (internalTrafficPolicy).
	Local bool
	// Prefers says which endpoints clients reach first, as far as the slices' hints name them.
	Prefers Preference
}

// Preference is which endpoints of a Service its clients reach first.
type Preference string

// The preferences of Services: those that the hints of slices name for the client's zone, or for its node and then for its zone.
const (
	PrefersNone Preference = ""
	PrefersZone Preference = "zone"
	PrefersNode Preference = "node"
)

// What is served of one Service: the first of its ports, and of each port so many endpoints that there are not more pairs of a port
// and an endpoint, in each IP family. OVN holds such a pair as some 20 bytes of text in each Network that knows the Service, and as a
// bucket of a group on the nodes where pods dial it.
const (
	MaxServicePorts = 256
	MaxServicePairs = 16384
)

// LabelZone on a Node is the zone that it is in. (Kubernetes: Well-Known Labels.)
const LabelZone = "topology.kubernetes.io/zone"

// ServicePort is a port of a Service's virtual addresses.
type ServicePort struct {
	// Name finds the endpoints' port; it may be empty.
	Name     string
	Protocol Protocol
	Port     uint16
}

// Slice is an EndpointSlice: some of the endpoints of a Service, all of one IP family.
type Slice struct {
	Key SliceKey
	UID string
	// Service is the name of the Service, in the slice's own namespace.
	Service   string
	Ports     []SlicePort
	Endpoints []Endpoint
}

// SlicePort is a port of endpoints.
type SlicePort struct {
	Name     string
	Protocol Protocol
	Port     uint16
}

// Endpoint is one address behind a Service.
type Endpoint struct {
	// Address as Kubernetes knows it: a face for a pod of a Network.
	Address netip.Addr
	// Pod and PodUID say whose it is; empty when it is no pod of the slice's namespace.
	Pod    PodKey
	PodUID string
	// Ready: it may get new connections. Serving: it may if none is ready (it is terminating).
	Ready, Serving bool
	// Hostname is the first label of its name in the DNS; empty when it has none of its own. Node is where it runs.
	Hostname, Node string
	// ForZones and ForNodes are the zones and nodes whose clients are to reach it first: hints.
	ForZones, ForNodes []string
}

// Equal reports whether two endpoints are the same.
func (e Endpoint) Equal(o Endpoint) bool {
	return e.Address == o.Address && e.Pod == o.Pod && e.PodUID == o.PodUID && e.Ready == o.Ready && e.Serving == o.Serving &&
		e.Hostname == o.Hostname && e.Node == o.Node && slices.Equal(e.ForZones, o.ForZones) && slices.Equal(e.ForNodes, o.ForNodes)
}
