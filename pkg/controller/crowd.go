package controller

// DefaultConnections is how many connections a pod has at most that its node follows inside its Network, in a cluster that says
// nothing else: a quarter of the table that nodes usually have.
const DefaultConnections = 65536

// mostConnections bounds how much of its node's table of connections a pod uses, which is for all Networks. Infrastructure in the
// default Network is not bounded: whoever may connect to it could use up its share, and it serves others.
func (s *State) mostConnections(p *pod, n *network) uint32 {
	if n.name == s.defaults.Network && s.isInfrastructure(s.namespaces[p.Key.Namespace]) {
		return 0
	}
	return s.defaults.Connections
}
