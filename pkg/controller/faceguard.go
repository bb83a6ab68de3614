package controller

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// guard is who in the default Network reaches the pods of others. While no Network has pods with faces there is none, and the
// default Network costs what it costs without other Networks.
type guard struct {
	// faced are the Networks with rows whose pods have faces.
	faced map[string]struct{}
	// stale: the default Network has other rows than the guard was made for.
	stale bool
	// of is the layout that it was made for; nothing without a guard.
	of *compile.Layout
}

func newGuard() guard { return guard{faced: map[string]struct{}{}} }

// DefaultInfrastructure are the namespaces that are infrastructure in a cluster that says nothing else.
func DefaultInfrastructure() []string { return []string{"kube-system", "atoll-system"} }

// noteGuarded takes note of a Network that was touched.
func (s *State) noteGuarded(n *network) {
	if n.serves() && n.layout.Faces && len(s.defaults.Faces) > 0 {
		s.guard.faced[n.name] = struct{}{}
	} else {
		delete(s.guard.faced, n.name)
	}
	if n.name == s.defaults.Network && (!n.serves() || !n.placed) {
		s.guard.stale = true
	}
}

// guards reports whether a Network is the default one and has a guard.
func (s *State) guards(n *network) bool {
	return n != nil && n.name == s.defaults.Network && s.guard.of != nil && n.model != nil && s.guard.of.UID == n.model.UID
}

// keepGuard makes the guard when the first Network with faces comes, and takes it away after the last one. It comes before the rows
// that have places in it.
func (s *State) keepGuard() {
	s.houseFlats()
	for name := range s.touched {
		if n := s.networks[name]; n != nil {
			s.noteGuarded(n)
		}
	}
	home := s.networks[s.defaults.Network]
	wanted := home.serves() && len(s.guard.faced)+len(s.flats.ranges) > 0
	if wanted == (s.guard.of != nil) && !s.guard.stale {
		return
	}
	s.guard.stale = false
	if old := s.guard.of; old != nil && (!wanted || old.UID != home.layout.UID) {
		s.graph.Delete(compile.FaceGuardOwner(*old))
		s.guard.of = nil
	}
	if wanted {
		layout := home.layout
		s.guard.of = &layout
		s.graph.Set(compile.FaceGuardOwner(layout), compile.FaceGuard(layout, s.defaults.Faces, len(s.flats.ranges) > 0))
	}
	if home.serves() {
		s.placeNetwork(home)
		for name := range s.flats.names {
			if n := s.networks[name]; n.serves() {
				s.placeNetwork(n)
			}
		}
		for _, n := range s.nodes {
			if n.model != nil && len(n.addresses) > 0 {
				s.nodeRows(home, n)
			}
		}
	}
	s.moveGuarded()
}

// moveGuarded has the places of all pods written down anew that the guard has places for.
func (s *State) moveGuarded() {
	if home := s.networks[s.defaults.Network]; home != nil {
		for key := range home.attached {
			if s.isInfrastructure(s.namespaces[key.Namespace]) {
				s.policies.pods[key] = struct{}{}
			}
		}
	}
	for name := range s.guard.faced {
		s.services.touchNetwork(name)
		if n := s.networks[name]; n.model.Ingress != model.InfraIngressInfrastructure {
			maps.Copy(s.policies.pods, n.attached)
		}
	}
}

// isInfrastructure reports whether a namespace's pods in the default Network are infrastructure.
func (s *State) isInfrastructure(ns *model.Namespace) bool {
	return ns != nil && (ns.Infrastructure() || slices.Contains(s.defaults.Infrastructure, ns.Name))
}

// guardPlaces are the places that a pod with that port has with the guard.
func (s *State) guardPlaces(p *pod, n *network, port string) []nb.Member {
	switch {
	case s.guard.of == nil:
	case s.guards(n):
		if s.isInfrastructure(s.namespaces[p.Key.Namespace]) {
			return []nb.Member{compile.GroupPlace(compile.GroupRef(*s.guard.of, compile.InfrastructureGroup()), port)}
		}
	case n.layout.Faces:
		return compile.FacePlaces(*s.guard.of, n.model.Ingress, p.attachment.Faces)
	}
	return nil
}

// guardService are the places of a Service's virtual addresses, when all that it leads to from the default Network are pods of
// Networks which say the same.
func (s *State) guardService(service model.Service, b compile.Backends, endpoints []resolved) []nb.Member {
	says := map[netip.Addr]model.InfraIngress{}
	for _, e := range endpoints {
		if n := s.networks[e.network]; n.serves() && n.layout.Faces {
			says[e.Address] = n.model.Ingress
		}
	}
	var who []model.InfraIngress
	for _, at := range slices.Concat(b.Ports...) {
		say, face := says[at.Addr()]
		if !face || len(who) > 0 && who[0] != say {
			return nil
		}
		who = append(who, say)
	}
	if len(who) == 0 {
		return nil
	}
	return compile.ServicePlaces(*s.guard.of, who[0], slices.DeleteFunc(slices.Clone(service.ClusterIPs), func(vip netip.Addr) bool {
		return !slices.ContainsFunc(slices.Concat(b.Ports...), func(at netip.AddrPort) bool { return at.Addr().Is4() == vip.Is4() })
	}))
}
