package decide

import "github.com/atoll-net/atoll/pkg/controller/decide/tenants"

// newTenants makes the stage of Tenants.
func (s *State) newTenants(sink tenants.Sink) *tenants.Stage {
	return tenants.New(tenants.World{
		Cluster: s.cluster, Networks: s.networks, Pods: s.pods, Services: s.serviceQuotas, Gateways: s.gatewayQuotas, Sink: sink,
		NetworkChanged: s.networks.Changed, NetworkReported: s.networks.Reported, PodsChanged: s.pods.HeldChanged,
		ServicesChanged: s.serviceQuotas.Counts, GatewaysChanged: s.gatewayQuotas.Counts,
	}, s.order.Stage(stageStatuses))
}
