package agree

import (
	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// sink takes what the controller would write to the API server.
type sink struct {
	decide.Discard
	// nodes have something new written on them.
	nodes map[string]model.NodeNetwork
	// problems of pods and others, by what they are about.
	problems map[string]string
}

var _ decide.Sink = (*sink)(nil)

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

// WriteNode implements decide.Sink, as does Event.
func (s *sink) WriteNode(name, _ string, n model.NodeNetwork) { s.nodes[name] = n }

func (s *sink) Event(about model.ObjectRef, p model.Problem) { s.problems[about.String()] = p.Message }
