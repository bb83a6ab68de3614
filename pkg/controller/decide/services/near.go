package services

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// places are the nodes, whose clients some Services lead elsewhere than others.
type places struct {
	// zones are those of all nodes, by their names; changed are nodes that may have come, gone or moved.
	zones   map[string]string
	changed map[string]struct{}
	// services are those that may lead by place, with the variables that they need on every node, and needed counts these.
	services map[model.ServiceKey][]compile.Variable
	needed   map[compile.Variable]int
	// stale: what nodes have is to be made anew.
	stale bool
	variables
}

func newPlaces() places {
	return places{
		zones: map[string]string{}, changed: map[string]struct{}{}, services: map[model.ServiceKey][]compile.Variable{},
		needed:    map[compile.Variable]int{},
		variables: newVariables(),
	}
}

// maxSpread bounds how many endpoints a port of a Service has altogether, counted for each node, where clients prefer those of
// their own node. With more, they prefer those of their zone: every node would have the endpoints of all others in its flows.
const maxSpread = 10000

// led is an endpoint that clients of a Network are led to.
type led struct {
	netip.AddrPort
	// endpoint is what its slice says of it.
	endpoint resolved
}

func addresses(list []led) []netip.AddrPort {
	var out []netip.AddrPort
	for _, e := range list {
		out = append(out, e.AddrPort)
	}
	return out
}

// lead says where a port leads: lead are all endpoints that take something new, from wherever, and near are those by place, where
// they differ. ready are the endpoints that do, and going those that only serve what they have.
//
// It is as kube-proxy does it, for each IP family by itself. With internalTrafficPolicy Local a client reaches the endpoints of
// its own node that are ready; if there is none, those that are going. Else hints count when each endpoint that is ready has
// some, and any of these names the client's node or zone. Else clients reach all. (k8s.io/kubernetes/pkg/proxy,
// CategorizeEndpoints.)
func (p *places) lead(service model.Service, ready, going []led) (lead []netip.AddrPort, near compile.NearByFamily) {
	if service.Local {
		near = compile.NearByFamily{IPv4: p.local(ready, going, true), IPv6: p.local(ready, going, false)}
		for _, list := range [][]led{ready, going} {
			for _, e := range list {
				if by := near.Of(e.Addr().Is4()); slices.Contains(by[compile.Place{Node: e.endpoint.Node}], e.AddrPort) {
					lead = append(lead, e.AddrPort)
				}
			}
		}
		return lead, near
	}
	if len(ready) == 0 {
		return addresses(going), near
	}
	if service.Prefers != model.PrefersNone {
		near = compile.NearByFamily{IPv4: p.hinted(service, ready, true), IPv6: p.hinted(service, ready, false)}
	}
	return addresses(ready), near
}

// local are the endpoints of each node; nil when there are none. Whoever writes a slice may name nodes that there are not.
func (p *places) local(ready, going []led, v4 bool) compile.Near {
	var out compile.Near
	for _, list := range [][]led{ready, going} {
		of := compile.Near{}
		for _, e := range list {
			_, known := p.zones[e.endpoint.Node]
			if place := (compile.Place{Node: e.endpoint.Node}); known && e.Addr().Is4() == v4 && out[place] == nil {
				of[place] = append(of[place], e.AddrPort)
			}
		}
		for place, endpoints := range of {
			if out == nil {
				out = compile.Near{}
			}
			out[place] = endpoints
		}
	}
	return out
}

// hinted are the endpoints that clients of each place reach; nil when they are the same everywhere.
func (p *places) hinted(service model.Service, ready []led, v4 bool) compile.Near {
	all := slices.DeleteFunc(slices.Clone(ready), func(e led) bool { return e.Addr().Is4() != v4 })
	forNodes, byNode := byHint(all, func(e led) []string { return e.endpoint.ForNodes })
	forZones, byZone := byHint(all, func(e led) []string { return e.endpoint.ForZones })
	everywhere := addresses(all)
	of := func(zone string) []netip.AddrPort {
		if endpoints := byZone[zone]; forZones && len(endpoints) > 0 {
			return endpoints
		}
		return everywhere
	}
	out, spread, differ := compile.Near{}, 0, false
	put := func(place compile.Place, endpoints []netip.AddrPort) {
		out[place], spread, differ = endpoints, spread+len(endpoints), differ || len(endpoints) != len(everywhere)
	}
	if forNodes && service.Prefers == model.PrefersNode {
		for node, zone := range p.zones {
			if endpoints := byNode[node]; len(endpoints) > 0 {
				put(compile.Place{Node: node}, endpoints)
			} else {
				put(compile.Place{Node: node}, of(zone))
			}
		}
	}
	if len(out) == 0 || spread > min(maxSpread, maxEndpoints(service)) {
		out, differ = compile.Near{}, false
		for _, zone := range p.zones {
			put(compile.Place{Zone: zone}, of(zone))
		}
	}
	if !differ {
		return nil
	}
	return out
}

// byHint are endpoints by who is to reach them first. all: each has such a hint.
func byHint(endpoints []led, hints func(led) []string) (all bool, by map[string][]netip.AddrPort) {
	all, by = true, map[string][]netip.AddrPort{}
	for _, e := range endpoints {
		all = all && len(hints(e)) > 0
		for _, name := range hints(e) {
			by[name] = append(by[name], e.AddrPort)
		}
	}
	return all, by
}

// note notes which variables a Service needs; none when it leads everybody to the same endpoints.
func (p *places) note(key model.ServiceKey, variables []compile.Variable) {
	for _, v := range p.services[key] {
		if p.needed[v]--; p.needed[v] == 0 {
			delete(p.needed, v)
			p.keep(v)
		}
	}
	if delete(p.services, key); len(variables) > 0 {
		p.services[key] = variables
	}
	for _, v := range variables {
		_, kept := p.kept[v]
		delete(p.kept, v)
		if p.needed[v]++; p.needed[v] == 1 && !kept {
			p.stale = true
		}
	}
}

// seeNodes looks at nodes that have changed, and marks the Services that lead by place when it matters to them.
func (s *Stage) seeNodes() {
	moved := false
	for name := range s.places.changed {
		was, known := s.places.zones[name]
		node := s.world.Cluster.Node(name)
		if node == nil {
			delete(s.places.zones, name)
			moved = moved || known
			s.world.Graph.Delete(nb.PlaceOwner(name))
			continue
		}
		zone := node.Labels[model.LabelZone]
		s.places.zones[name] = zone
		moved = moved || !known || zone != was
	}
	clear(s.places.changed)
	if !moved {
		return
	}
	s.places.stale = true
	for key := range s.places.services {
		s.rows.Mark(key)
	}
}

// writePlaces gives every node the variables that Services need, or needed a short while ago. Where none does, nodes have no row.
func (s *Stage) writePlaces() {
	if !s.places.stale {
		return
	}
	s.places.stale = false
	variables := slices.AppendSeq(slices.Collect(maps.Keys(s.places.needed)), maps.Keys(s.places.kept))
	variables = compile.SortVariables(variables)
	for node, zone := range s.places.zones {
		if len(variables) == 0 {
			s.world.Graph.Delete(nb.PlaceOwner(node))
			continue
		}
		s.world.Graph.Set(nb.PlaceOwner(node), compile.NodeVariables(node, zone, variables))
	}
}
