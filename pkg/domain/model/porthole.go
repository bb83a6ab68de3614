package model

import (
	"net/netip"
	"strings"
)

// Interfaces of a node in the default Network, both in the node's own namespace.
const (
	// NodeInterface has the node's address in the default Network: its way to all pods.
	NodeInterface = "atoll0"
	// EdgeInterface is bound to the default Network's localport: its pods' way out, on their own node.
	EdgeInterface = "atoll1"
)

// The link between a Network's router and its porthole. Every Network has the same addresses there, on every node:
// nothing else is on that link, and no subnet can have them. (169.254.0.0/16: RFC 3927; fe80::/10: RFC 4291.)
const (
	// PortholeMAC is the MAC address of the porthole.
	PortholeMAC = "0e:a7:01:00:00:02"
	// EdgeMAC is that of the router on the link.
	EdgeMAC = "0e:a7:01:00:00:01"
)

// EdgeAddresses are the router's addresses on that link, each with its prefix length; IPv4 first. That of IPv6 is the one that OVN
// gives each port of a router, which follows from EdgeMAC (RFC 4291, appendix A): another one would be one more, with its logical flows.
func EdgeAddresses() [2]netip.Prefix {
	return [2]netip.Prefix{netip.MustParsePrefix("169.254.100.1/30"), netip.MustParsePrefix("fe80::ca7:1ff:fe00:1/64")}
}

// PortholeAddresses are the porthole's; IPv4 first.
func PortholeAddresses() [2]netip.Prefix {
	return [2]netip.Prefix{netip.MustParsePrefix("169.254.100.2/30"), netip.MustParsePrefix("fe80::a701:2/64")}
}

// ErrandAddress is the one of a porthole, of an IP family, under which a vpc Network's pods see a client whose own address lies
// in one of the Network's subnets: they would look for that one among their neighbours.
func ErrandAddress(v4 bool) netip.Addr {
	if v4 {
		return PortholeAddresses()[0].Addr()
	}
	// A link-local address cannot be answered through a router. This one is routed to the porthole like everything that
	// is no subnet of the Network. (RFC 4193; the middle is random.)
	return netip.MustParseAddr("fdd7:5e3c:91a4::a701:2")
}

// OwnNodeAddresses are those under which a vpc Network's pods see their own node, in each Network and on each node; IPv4
// first. Nobody else has them: the node gives them to what it sends itself into a porthole, and lets in nobody who has them
// already. (RFC 3927; RFC 4193, the middle is random.)
func OwnNodeAddresses() [2]netip.Addr {
	return [2]netip.Addr{netip.MustParseAddr("169.254.100.5"), netip.MustParseAddr("fdd7:5e3c:91a4::a702:1")}
}

// PortholePortName is the name of the logical switch port by which a Network's portholes are bound on each node.
func PortholePortName(network string) string { return network + ":porthole" }

// joint is what stands between the names of two Networks in that of a port. No Network's name has a colon.
const joint = ":to:"

// JointPortName is the name of the router's port that leads from a Network to another one that is joined to it.
func JointPortName(network, other string) string { return network + joint + other }

// JoinedBy are the two Networks of the name that JointPortName gives; false for another name.
func JoinedBy(port string) (network, other string, is bool) { return strings.Cut(port, joint) }

// Egress says how a Network's pods reach what is outside of the cluster.
type Egress string

// The ways out.
const (
	// EgressNone: not at all.
	EgressNone Egress = "none"
	// EgressNode: from their node, with the node's address.
	EgressNode Egress = "node"
)

// InfraAccess says what a Network's pods reach of the infrastructure: the nodes, the default Network and its
// Services.
type InfraAccess string

// The degrees of access.
const (
	// InfraNone: nothing.
	InfraNone InfraAccess = "none"
	// InfraServices: DNS and the Kubernetes API.
	InfraServices InfraAccess = "services"
	// InfraDirect: nodes, the default Network's pods and its Services, by their addresses.
	InfraDirect InfraAccess = "direct"
)

// InfraIngress says which pods of the default Network reach a Network's pods by their faces. Nodes always do.
type InfraIngress string

// The degrees of it.
const (
	// InfraIngressNone: none.
	InfraIngressNone InfraIngress = "None"
	// InfraIngressInfrastructure: those of infrastructure's namespaces.
	InfraIngressInfrastructure InfraIngress = "Infrastructure"
	// InfraIngressAll: all.
	InfraIngressAll InfraIngress = "All"
)

// DNSMode says who answers the DNS questions of a Network's pods.
type DNSMode string

// The modes.
const (
	// DNSNode: the agent on the pod's node.
	DNSNode DNSMode = "node"
	// DNSService: a Service of the tenant.
	DNSService DNSMode = "service"
	// DNSNone: nobody.
	DNSNone DNSMode = "none"
)

// ServiceRef names a Service.
type ServiceRef struct{ Namespace, Name string }
