package nodes

import (
	"github.com/atoll-net/atoll/pkg/controller/decide/networks"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// markPorts has the ports of all nodes written.
func (s *Stage) markPorts() {
	for name, n := range s.nodes {
		if n.hasPort() {
			s.ports.Mark(name)
		}
	}
}

// hasPort reports whether a node has its place in the default Network.
func (n *node) hasPort() bool { return n != nil && len(n.addresses) > 0 }

// DeletePorts takes the rows of nodes that have lost their port. They go before other rows come, which may have their addresses.
func (s *Stage) DeletePorts() {
	for name := range s.ports.Marked() {
		if !s.nodes[name].hasPort() {
			s.Graph.Delete(nb.NodeOwner(name))
			s.ports.Drop(name)
		}
	}
}

// WritePorts writes the ports of nodes, and what lets each in to its own pods.
func (s *Stage) WritePorts() {
	for name := range s.ports.Take() {
		s.writePort(s.nodes[name])
	}
}

func (s *Stage) writePort(n *node) {
	home := s.home()
	facts := compile.Node(home.Layout, n.name, n.have)
	if s.Networks.Guard(home) != nil {
		facts.Members = append(facts.Members, compile.NodeWay(home.Layout, n.name))
	}
	for _, flat := range s.Networks.Flats() {
		s.letIn(flat, n, &facts)
	}
	s.letIn(home, n, &facts)
	s.Graph.Set(nb.NodeOwner(n.name), facts)
}

// letIn lets a node in to its own pods of a flat Network, while a policy judges any.
func (s *Stage) letIn(flat *networks.Network, n *node, facts *nb.Facts) {
	if s.Networks.Serves(flat.Name) && s.Policies.Judges(flat.Model) {
		facts.Add(compile.NodeAccess(flat.Layout, s.Home, n.name, n.have))
	}
}
