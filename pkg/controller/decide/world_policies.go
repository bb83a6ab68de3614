package decide

import (
	"github.com/atoll-net/atoll/pkg/controller/decide/networks"
	"github.com/atoll-net/atoll/pkg/controller/decide/policies"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
)

// newPolicies makes the stage of policies.
func (s *State) newPolicies(g *graph.Graph, sink policies.Sink) *policies.Stage {
	w := policed{s}
	return policies.New(s.cluster, policies.World{
		Networks: w, Pods: w, Nodes: s.nodes, Services: behind{s.catalog, s.services}, Sink: sink, API: networks.APIService(),
		PortChanged: s.pods.PortChanged, ServedChanged: s.networks.Served, AnswersChanged: s.services.Answering,
		SeenChanged: s.nodes.AddressesChanged,
	}, g, s.order.Stage(stagePolicies))
}

// policed is what policies read.
type policed struct{ *State }

func (w policed) Served(name string) (*model.Network, compile.Layout) {
	if w.networks.Serves(name) {
		n := w.networks.Get(name)
		return n.Model, n.Layout
	}
	return nil, compile.Layout{}
}

func (w policed) Holders(network string) map[model.PodKey]struct{} {
	return w.pods.Members(network).Attached
}

func (w policed) Peers(network string, d model.Direction) []string {
	n := w.networks.Get(network)
	switch {
	case n == nil:
		return nil
	case d == model.PolicyIngress:
		return n.Consumers()
	}
	return n.Providers()
}

func (w policed) Joined(network string) []string {
	if n := w.networks.Get(network); n != nil {
		return n.Joined()
	}
	return nil
}

func (w policed) Pod(key model.PodKey) *model.Pod { return w.pods.Pod(key) }

func (w policed) Attachment(key model.PodKey) *model.Attachment {
	_, a, _ := w.pods.Where(key)
	return a
}
