package networks

import (
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Route gives each Network about which something changed its rows, or takes them: a Network that was deleted has them until
// its last pod has gone.
func (s *Stage) Route() {
	s.joinPeers()
	s.keepGuard()
	for name := range s.unrouted.Take() {
		n := s.networks[name]
		if n == nil {
			continue
		}
		owner := nb.NetworkOwner(name)
		if s.serves(n) {
			// Most that happens to a Network is a pod that comes or goes, which changes none of its own rows.
			if !n.routed {
				s.routeNetwork(n)
			}
			continue
		}
		n.routed = false
		s.offer(n, compile.Peers{})
		s.Served.Changed(name)
		_, had := s.Graph.Facts(owner)
		s.Graph.Delete(owner)
		switch {
		case n.Model == nil:
			delete(s.networks, name)
		case s.mayGo(n) && !had:
			// With rows, Committed lets it go once they have left the database.
			s.release(n)
		}
	}
}

// routeNetwork gives a Network its rows.
func (s *Stage) routeNetwork(n *Network) {
	layout := n.Layout
	layout.Joined = len(n.peers.Joined) > 0
	layout.Unnumbered = s.unnumbered(n)
	layout.Virtual = s.virtual(n)
	facts := compile.Network(layout, s.Cluster.Faces)
	facts.Add(s.peerRows(n))
	if n.Default {
		facts.Add(compile.VanishedEndpoints(n.Layout))
	}
	if s.guard.layout != nil && (s.guards(n) || n.Layout.Home != nil) {
		facts.Add(compile.WayPlaces(n.Layout))
		if len(s.flats.ranges) > 0 {
			facts.Add(compile.Apart(n.Layout))
		}
	}
	s.offer(n, n.peers)
	owner := nb.NetworkOwner(n.Name)
	n.routed, n.changed = true, s.Graph.Set(owner, facts) || n.changed
	if n.written && !n.changed {
		s.asWanted(n)
	}
}

// offer keeps what a Network's offer to others can do without for a while.
func (s *Stage) offer(n *Network, peers compile.Peers) {
	layout := n.Layout
	layout.Name = n.Name
	for owner, facts := range compile.Offers(layout, peers) {
		if len(facts.Rows) > 0 {
			s.Graph.Set(owner, facts)
		} else {
			s.Graph.Delete(owner)
		}
	}
}

// mayGo reports whether the Network is being deleted, and no pod has addresses of it any more.
func (s *Stage) mayGo(n *Network) bool { return n.Model != nil && n.Model.Deleting && !s.inUse(n) }

// release lets a deleted Network go: nothing of it is in the database any more.
func (s *Stage) release(n *Network) {
	if n.Model.Finalized {
		s.Sink.WriteFinalizer(n.Name, n.Model.UID, false)
	}
}

// Committed says that the database holds what the graph wants for a Network.
func (s *Stage) Committed(owner nb.Owner) {
	n := s.Get(owner.Name)
	if n == nil || s.Graph.Busy(owner) {
		return
	}
	_, wanted := s.Graph.Facts(owner)
	if !wanted && s.mayGo(n) {
		s.release(n)
	}
	n.changed = false
	if n.written == wanted && n.denied == nil && n.observed == n.Model.Generation && !n.late {
		return
	}
	n.written, n.denied = wanted, nil
	s.asWanted(n)
	s.unreported.Mark(n.Name)
}

// Refused says why the database does not accept the rows of a Network.
func (s *Stage) Refused(owner nb.Owner, problem model.Problem) {
	if n := s.Get(owner.Name); n != nil {
		n.denied = &problem
		s.Sink.Event(n.Model.Ref(), problem)
		s.unreported.Mark(n.Name)
	}
}

// DatabaseChanged says that the database has come, or gone, as a whole; in the latter case nobody knows what it holds.
func (s *Stage) DatabaseChanged() {
	for _, n := range s.networks {
		n.written = n.written && s.Database.Away.IsZero()
	}
	s.reportAll()
}

// Close takes away what no pod uses any more, and compares what Networks serve with the infrastructure's addresses.
func (s *Stage) Close() {
	s.closeFormer()
	home := s.home()
	// A default Network that is being deleted goes with its last pod.
	if _, changed := s.replanned[s.Cluster.Network]; changed || s.serves(home) != s.housed {
		s.infraChanged, s.housed = true, s.serves(home)
		s.HomeChanged.Changed(struct{}{})
		s.infrastructureMoved()
	}
	s.findConflicts()
}
