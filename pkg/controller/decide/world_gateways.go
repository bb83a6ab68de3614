package decide

import (
	"github.com/atoll-net/atoll/pkg/controller/decide/gateways"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// newGateways makes the stage of Gateways.
func (s *State) newGateways(g *graph.Graph, sink gateways.Sink) *gateways.Stage {
	return gateways.New(gateways.World{
		Cluster: s.cluster, Networks: s.networks, Services: behind{s.catalog, s.services}, Virtual: s.virtual, Quotas: s.gatewayQuotas,
		Graph: g, Balancers: s.balancers, Sink: sink,
		NetworkChanged: s.networks.Served, ServiceChanged: s.services.Compiled,
	}, s.order.Stage(stageClaims), s.order.Stage(stageGateways))
}

// reportGateways hands out the statuses of Gateway API, unless they are held back.
func (s *State) reportGateways() {
	if !s.database.Held {
		s.gateways.Report()
	}
}

func (s *State) gatewayCommitted(owner nb.Owner) {
	s.gateways.Committed(owner)
	s.reportGateways()
}

func (s *State) gatewayRefused(owner nb.Owner, problem model.Problem) {
	s.gateways.Refused(owner, problem)
	s.reportGateways()
}
