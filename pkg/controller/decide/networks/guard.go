package networks

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// guard is who in the default Network reaches the pods of others. While no Network has pods with faces there is none, and the
// default Network costs what it costs without other Networks.
type guard struct {
	// faced are the Networks with rows whose pods have faces.
	faced map[string]struct{}
	// stale: the default Network has other rows than the guard was made for.
	stale bool
	// layout is what it was made for; nothing without a guard.
	layout *compile.Layout
}

// noteGuarded takes note of a Network that was touched.
func (s *Stage) noteGuarded(n *Network) {
	if s.serves(n) && n.Layout.Faces && len(s.Cluster.Faces) > 0 {
		s.guard.faced[n.Name] = struct{}{}
	} else {
		delete(s.guard.faced, n.Name)
	}
	if n.Default && (!s.serves(n) || !n.routed) {
		s.guard.stale = true
	}
}

// guards reports whether a Network is the default one and has a guard.
func (s *Stage) guards(n *Network) bool {
	return n != nil && n.Default && s.guard.layout != nil && n.Model != nil && s.guard.layout.UID == n.Model.UID
}

// keepGuard makes the guard when the first Network with faces comes, and takes it away after the last one. It comes before the rows
// that have places in it.
func (s *Stage) keepGuard() {
	s.houseFlats()
	for name := range s.unrouted.Marked() {
		if n := s.networks[name]; n != nil {
			s.noteGuarded(n)
		}
	}
	home := s.home()
	wanted := s.serves(home) && len(s.guard.faced)+len(s.flats.ranges) > 0
	if wanted == (s.guard.layout != nil) && !s.guard.stale {
		return
	}
	s.guard.stale = false
	if old := s.guard.layout; old != nil && (!wanted || old.UID != home.Layout.UID) {
		s.Graph.Delete(compile.FaceGuardOwner(*old))
		s.guard.layout = nil
	}
	if wanted {
		layout := home.Layout
		s.guard.layout = &layout
		s.Graph.Set(compile.FaceGuardOwner(layout), compile.FaceGuard(layout, s.Cluster.Faces, len(s.flats.ranges) > 0))
	}
	if s.serves(home) {
		s.routeNetwork(home)
		for name := range s.flats.names {
			if n := s.networks[name]; s.serves(n) {
				s.routeNetwork(n)
			}
		}
		s.GuardChanged.Changed(struct{}{})
	}
	s.moveGuarded()
}

// moveGuarded has the places of all pods written down anew that the guard has places for.
func (s *Stage) moveGuarded() {
	if home := s.home(); home != nil {
		s.PlacesChanged.Changed(home.Name)
	}
	for name := range s.guard.faced {
		s.Served.Changed(name)
		if n := s.networks[name]; n.Model.Ingress != model.InfraIngressInfrastructure {
			s.PlacesChanged.Changed(name)
		}
	}
}

// Guard is what guards the pods of others in the default Network; nil of another Network, and while nobody needs it.
func (s *Stage) Guard(n *Network) *compile.Layout {
	if s.guards(n) {
		return s.guard.layout
	}
	return nil
}

// GuardPlaces are the places that a pod with that port and those faces has with the guard.
func (s *Stage) GuardPlaces(n *Network, namespace, port string, faces []netip.Addr) []nb.Member {
	switch {
	case s.guard.layout == nil:
	case s.guards(n):
		if s.Cluster.IsInfrastructure(namespace) {
			return []nb.Member{compile.GroupPlace(compile.GroupRef(*s.guard.layout, compile.InfrastructureGroup()), port)}
		}
	case n.Layout.Faces:
		return compile.FacePlaces(*s.guard.layout, n.Model.Ingress, faces)
	}
	return nil
}
