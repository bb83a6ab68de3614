package agree

import (
	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/model"
)

// sink takes what the controller would write to the API server.
type sink struct {
	// nodes have something new written on them.
	nodes map[string]model.NodeNetwork
	// problems of pods and others, by what they are about.
	problems map[string]string
}

var _ controller.Sink = (*sink)(nil)

func newSink() *sink {
	return &sink{nodes: map[string]model.NodeNetwork{}, problems: map[string]string{}}
}

// take is what follows from what was written; nil if nothing was.
func (s *sink) take(objects model.Changes) *model.Changes {
	if len(s.nodes) == 0 {
		return nil
	}
	out := model.Changes{Nodes: map[string]*model.Node{}}
	for name, n := range s.nodes {
		node := *objects.Nodes[name]
		node.Assigned = &n
		out.Nodes[name] = &node
	}
	clear(s.nodes)
	return &out
}

// WriteNode implements controller.Sink, as do the others.
func (s *sink) WriteNode(name, _ string, n model.NodeNetwork) { s.nodes[name] = n }

func (s *sink) PodEvent(pod model.PodKey, _ string, p model.Problem) {
	s.problems["pod "+pod.String()] = p.Message
}

func (s *sink) NetworkEvent(name, _ string, p model.Problem) { s.problems["Network "+name] = p.Message }

func (s *sink) NodeEvent(name, _ string, p model.Problem) { s.problems["node "+name] = p.Message }

func (s *sink) NamespaceEvent(name, _ string, p model.Problem) {
	s.problems["namespace "+name] = p.Message
}

func (s *sink) ServiceEvent(service model.ServiceKey, _ string, p model.Problem) {
	s.problems["Service "+service.Namespace+"/"+service.Name] = p.Message
}

func (s *sink) PolicyEvent(policy model.PolicyKey, _ string, p model.Problem) {
	s.problems[policy.String()] = p.Message
}

func (s *sink) WriteServiceAddresses(model.ServiceKey, string, *model.ServiceAddresses) {}
func (s *sink) WriteAttachments(model.PodKey, string, []model.Attachment)               {}
func (s *sink) Forget(model.PodKey)                                                     {}
func (s *sink) WriteNetworkStatus(string, string, model.NetworkStatus)                  {}
func (s *sink) WriteFinalizer(string, string, bool)                                     {}
func (s *sink) WriteViews(map[model.ViewKey]*model.View)                                {}
func (s *sink) WriteMirrors(map[model.ServiceKey][]model.Mirror)                        {}
func (s *sink) WriteGatewayClassStatus(string, string, model.GatewayClassStatus)        {}
func (s *sink) WriteGatewayStatus(model.GatewayKey, string, model.GatewayStatus)        {}
func (s *sink) WriteRouteStatus(model.RouteKey, string, model.RouteStatus)              {}
