package dns

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// ServiceKey names a Service.
type ServiceKey struct{ Namespace, Name string }

// SliceKey names an EndpointSlice.
type SliceKey struct{ Namespace, Name string }

// Service is what the DNS tells of a Service. It is not changed once it was handed over.
type Service struct {
	ServiceKey
	// ClusterIPs are its virtual addresses, at most one per IP family; none when it has an ExternalName or is headless.
	ClusterIPs []netip.Addr
	// Own are the virtual addresses that it has in the Network of its namespace beside them; nil when it has none.
	Own *model.ServiceAddresses
	// Headless: the name stands for the endpoints themselves.
	Headless bool
	// ExternalName is the name that it is an alias of; empty for all other Services.
	ExternalName string
	Ports        []Port
	// PublishNotReady: endpoints are told of before they are ready.
	PublishNotReady bool
}

// refused reports whether its addresses lead nowhere, in no Network: it is beyond its tenant's quota.
func (s *Service) refused() bool { return s.Own != nil && s.Own.Refused && len(s.ClusterIPs) > 0 }

// Port is a port of a Service or of its endpoints.
type Port struct {
	// Name may be empty.
	Name string
	// Protocol in lower case: tcp, udp or sctp.
	Protocol string
	Number   uint16
}

// Endpoint is one address behind a Service.
type Endpoint struct {
	// Address is the pod's own in the Network.
	Address netip.Addr
	// Face is what pods of other Networks reach it by; the zero value: they do not.
	Face netip.Addr
	// Hostname is the first label of its name; empty: one that follows from the address.
	Hostname string
	Ready    bool
}

// Slice is part of the endpoints that a Service has in one Network. It is not changed once it was handed over.
type Slice struct {
	Service   ServiceKey
	Network   string
	Ports     []Port
	Endpoints []Endpoint
}
