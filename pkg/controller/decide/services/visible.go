package services

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/mirror"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// resolved is an endpoint and where it is.
type resolved struct {
	model.Endpoint
	// network of the pod, and the pod; empty for an address that is no pod's.
	network string
	pod     model.PodKey
	// own is the address there.
	own   netip.Addr
	ports []model.SlicePort
}

// ready: it takes new connections. going: it serves those that it has.
func (e resolved) ready() bool { return e.Ready }
func (e resolved) going() bool { return !e.Ready && e.Serving }

// port is the number of the endpoint's port that a Service's port leads to.
func (e resolved) port(of model.ServicePort) (uint16, bool) {
	for _, p := range e.ports {
		if p.Name == of.Name && p.Protocol == of.Protocol {
			return p.Port, true
		}
	}
	return 0, false
}

// resolve finds out where the endpoints of a namespace's Service are.
func (l look) resolve(ns model.Namespace) []resolved {
	var out []resolved
	for _, slice := range l.world.Catalog.Slices(l.service) {
		for _, e := range slice.Endpoints {
			r := resolved{Endpoint: e, ports: slice.Ports}
			var there bool
			if r.network, r.own, there = l.placeOf(e, ns); !there {
				continue
			}
			if r.network != "" {
				r.network, r.pod = l.network(r.network).Space, l.podOf(e, ns)
			}
			out = append(out, r)
		}
	}
	return out
}

// placeOf is where an endpoint is, and its own address there: of a pod, its address of the endpoint's IP family; what is no
// pod's stays as it is, and so does the address of a pod on its node's own network, which is the node's. A pod that has no
// port is nowhere; one that has gone, or whose name another pod has now, too.
func (l look) placeOf(e model.Endpoint, ns model.Namespace) (network string, own netip.Addr, there bool) {
	key := l.podOf(e, ns)
	if key.Name == "" {
		return "", e.Address, true
	}
	p, known := l.pod(key)
	if !known {
		return "", e.Address, l.isNode(e.Address)
	}
	if e.PodUID != "" && e.PodUID != p.UID || p.Attachment == nil {
		return "", netip.Addr{}, false
	}
	for _, a := range p.Attachment.Addresses {
		if a.Addr().Is4() == e.Address.Is4() {
			return p.Network, a.Addr(), true
		}
	}
	return "", netip.Addr{}, false
}

// podOf is the pod of an endpoint: the one that its slice names, else the one of the namespace's own Network whose face its
// address is. Who writes slices by hand knows of pods what the API says of them, and inside their Network an endpoint is
// dialled by its own address. No other Network's pod is found, so that nobody reaches it or learns who has a face; nor is
// one of a Network that the namespace may not use.
func (l look) podOf(e model.Endpoint, ns model.Namespace) model.PodKey {
	if e.Pod.Name != "" {
		return e.Pod
	}
	key, held := l.withFace(e.Address)
	if !held {
		return model.PodKey{}
	}
	home := l.network(l.world.Cluster.HomeOf(ns))
	p, known := l.pod(key)
	if !known || p.Network != home.Name || p.Attachment == nil || !home.Serves || !l.admits(home, ns) {
		return model.PodKey{}
	}
	return key
}

// networksOf are the Networks where the Services of a namespace are known: the namespace's own, the default one, where the
// infrastructure is that reaches everybody, and those that pods behind them are in.
// consumers are those that reach the namespace's, where they have rows of their own of the Service.
func (l look) networksOf(home Network, consumers []string, endpoints []resolved) []string {
	names := map[string]struct{}{home.Space: {}, l.world.Cluster.Network: {}}
	for _, name := range consumers {
		names[name] = struct{}{}
	}
	for _, e := range endpoints {
		if e.network != "" {
			names[e.network] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// behind reports whether any of the endpoints are in a Network.
func behind(endpoints []resolved, network string) bool {
	return slices.ContainsFunc(endpoints, func(e resolved) bool { return e.network == network })
}

// backends are the endpoints that a Service's ports lead to for clients in a Network, and those that have been left. Those
// that are going serve when nobody else does. home is the Network that addresses are in which are no pod's.
func (s *Stage) backends(service model.Service, n Network, home string, endpoints []resolved) compile.Backends {
	network, out := n.Name, compile.Backends{
		Layout: n.Layout, Ports: make([][]netip.AddrPort, len(service.Ports)), Left: make([][]netip.AddrPort, len(service.Ports)),
	}
	for i, port := range service.Ports {
		among := func(counts func(resolved) bool) []led {
			var own, faces []led
			for _, e := range endpoints {
				number, has := e.port(port)
				if !has || !counts(e) {
					continue
				}
				switch {
				case e.network == network, e.network == "" && network == home:
					own = append(own, led{netip.AddrPortFrom(e.own, number), e})
				case e.network != "" && network == s.world.Cluster.Network:
					// The infrastructure reaches pods of every Network by their faces.
					faces = append(faces, led{netip.AddrPortFrom(e.Address, number), e})
				case e.network != "" && n.uses(e.network) && n.joined(e.network):
					own = append(own, led{netip.AddrPortFrom(e.own, number), e})
				case e.network != "" && n.uses(e.network) && s.world.Pods.MayBeFace(e.Address):
					// So do pods of other Networks where they may, and they do not prefer their own.
					own = append(own, led{netip.AddrPortFrom(e.Address, number), e})
				}
			}
			if len(own) > 0 {
				return own
			}
			return faces
		}
		ready, going := among(resolved.ready), among(resolved.going)
		var near compile.NearByFamily
		out.Ports[i], near = s.places.lead(service, ready, going)
		if service.Local || service.Prefers != model.PrefersNone {
			out.Near = append(out.Near, near)
		}
		for _, e := range going {
			if !slices.Contains(out.Ports[i], e.AddrPort) {
				out.Left[i] = append(out.Left[i], e.AddrPort)
			}
		}
	}
	return out
}

// Endpoints are those that a port of a Service, by its place there, would lead to in a Network.
func (s *Stage) Endpoints(service *model.Service, port int, network string) []netip.AddrPort {
	ns, n := s.world.Cluster.Namespaces[service.Key.Namespace], s.world.Networks.Network(network)
	if ns == nil || !n.Serves || !s.admits(n, *ns) && !s.isDefault(n) || !s.served(service) {
		return nil
	}
	l := s.look(service.Key)
	return s.backends(*service, n, l.network(s.world.Cluster.HomeOf(*ns)).Space, bounded(service, l.resolve(*ns))).Ports[port]
}

// mirrors are those of the Service's slices: one for each slice and Network with addresses of its own. In a flat
// Network Kubernetes' own slices have the pods' addresses.
func (l look) mirrors() []model.Mirror {
	ns := l.namespace(l.service.Namespace)
	if ns == nil {
		return nil
	}
	var out []model.Mirror
	for _, slice := range l.world.Catalog.Slices(l.service) {
		out = append(out, mirror.Of(*slice, func(e model.Endpoint) (mirror.Place, bool) { return l.mirroredAt(*ns, e) })...)
	}
	return out
}

// mirroredAt is where an endpoint of a namespace's Service is, if that is mirrored. An address that is no pod's is taken
// for one of the namespace's own Network, if the namespace may use it.
func (l look) mirroredAt(ns model.Namespace, e model.Endpoint) (place mirror.Place, mirrored bool) {
	if place.Network, place.Address, mirrored = l.placeOf(e, ns); !mirrored {
		return place, false
	}
	place.Network = cmp.Or(place.Network, l.world.Cluster.HomeOf(ns))
	n := l.network(place.Network)
	place.Faces = n.offers()
	return place, n.Serves && n.Model.Type == model.VPC && l.admits(n, ns)
}
