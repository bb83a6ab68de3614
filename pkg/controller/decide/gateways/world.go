package gateways

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/drain"
	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
)

// World is what Gateways are decided by, and where decisions go.
type World struct {
	Cluster   *cluster.Cluster
	Networks  Networks
	Services  Services
	Virtual   *ledger.Virtual
	Quotas    *ledger.Quotas[model.GatewayKey]
	Graph     *graph.Graph
	Balancers *drain.Balancers
	Sink      Sink
	// NetworkChanged tells of Networks that serve something else, or whose ranges are others, and ServiceChanged of Services that
	// changed or lead elsewhere.
	NetworkChanged *pass.Topic[string]
	ServiceChanged *pass.Topic[model.ServiceKey]
}

// Networks are those that Gateways are in.
type Networks interface {
	// Space is the Network whose load balancers the pods of a Network meet.
	Space(network string) string
	// Refusal says why nothing of a namespace is served in a Network; nil when it is.
	Refusal(ns model.Namespace, network string) *model.Problem
	Layout(network string) compile.Layout
	// Offered are those of some addresses that mean the same in the Networks that take a Network's ranges from it as in itself; none
	// while none uses it.
	Offered(network string, of []netip.Addr) []netip.Addr
	// Ways are how these know it.
	Ways(network string) []compile.Layout
}

// Services are those that routes lead to.
type Services interface {
	// Service is nil when there is none.
	Service(key model.ServiceKey) *model.Service
	// Endpoints are those that a port of a Service, by its place there, leads to in a Network.
	Endpoints(service *model.Service, port int, network string) []netip.AddrPort
	// OfferedEndpoints are those that it leads to for the Networks that know that one in some way.
	OfferedEndpoints(service *model.Service, port int, network string, way compile.Layout) []netip.AddrPort
}

// Sink takes statuses.
type Sink interface {
	WriteGatewayClassStatus(name, uid string, status model.GatewayClassStatus)
	WriteGatewayStatus(gateway model.GatewayKey, uid string, status model.GatewayStatus)
	WriteRouteStatus(route model.RouteKey, uid string, status model.RouteStatus)
}
