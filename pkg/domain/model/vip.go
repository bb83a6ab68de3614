package model

import "net/netip"

// AnnotationServiceIPs on a Service asks for certain addresses of its Network's service ranges: one, or one of each IP
// family with a comma between them.
const AnnotationServiceIPs = Group + "/service-ips"

// AnnotationServiceAddresses on a Service is the JSON of ServiceAddresses: what the controller gave it. The agent's DNS
// tells of it, in that Network only. The admission policies in dist/ let nobody else set it, and a range of the Network
// must hold the addresses: whoever forges it reaches no more than that.
const AnnotationServiceAddresses = Group + "/service-addresses"

// ServiceAddresses are the virtual addresses that a Service has in the Network of its namespace, beside its ClusterIPs.
type ServiceAddresses struct {
	// ServiceUID is the UID of the Service that they were given to: an annotation that was copied with its Service names
	// another one and counts for nothing.
	ServiceUID string `json:"serviceUID"`
	// Network is where they are, NetworkUID its UID: one that is made anew under its name is another.
	Network    string `json:"network,omitempty"`
	NetworkUID string `json:"networkUID,omitempty"`
	// Addresses are one or two, of different IP families, IPv4 first.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Refused: it is beyond its tenant's quota and has none. It has no name in any Network then.
	Refused bool `json:"refused,omitempty"`
}
