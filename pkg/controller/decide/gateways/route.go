package gateways

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/controller/decide/drain"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// listener is a listener of a Gateway and what was decided about it.
type listener struct {
	model.Listener
	// conflict names a listener that cannot be told from this one; empty when there is none.
	conflict string
	// attached counts the routes that attach, and first is the oldest of them: it gets the traffic.
	attached int32
	first    *route
}

// serves reports whether the listener listens.
func (l listener) serves() bool { return l.Protocol != "" && l.Port != 0 && l.conflict == "" }

func listenersOf(g model.Gateway) []listener {
	out := make([]listener, len(g.Listeners))
	for i, l := range g.Listeners {
		out[i].Listener = l
		for j, other := range g.Listeners {
			if i != j && l.Port == other.Port && transport(l) == transport(other) && (l.Protocol != "" || other.Protocol != "") {
				out[i].conflict = other.Name
			}
		}
	}
	return out
}

// transport is what a listener's packets are: those of HTTP and TLS are TCP's.
func transport(l model.Listener) string {
	switch l.Asked {
	case "TCP", "HTTP", "HTTPS", "TLS":
		return "TCP"
	}
	return l.Asked
}

// attach decides which routes attach to a Gateway, the oldest first, and what they are told.
func (s *Stage) attach(g *gateway) {
	for _, r := range s.routesOf(g.Key) {
		s.reads.namespaces.Note(g.Key, r.Key.Namespace)
		resolved := s.resolvedRefs(g, r)
		attached := make([]bool, len(g.listeners))
		for at, p := range r.Parents {
			if p.Gateway != g.Key {
				continue
			}
			r.parents[at] = []model.Condition{s.attachAt(g, r, p, attached), resolved}
		}
		for i, is := range attached {
			if !is {
				continue
			}
			l := &g.listeners[i]
			if l.attached++; l.first == nil {
				l.first = r
			}
		}
		s.reportedRoutes[r.Key] = struct{}{}
	}
}

// routesOf are the routes that name a Gateway, the oldest first.
func (s *Stage) routesOf(key model.GatewayKey) []*route {
	var out []*route
	for k := range s.routesTo[key] {
		out = append(out, s.routes[k])
	}
	slices.SortFunc(out, func(a, b *route) int {
		return cmp.Or(
			a.Created.Compare(b.Created),
			cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name), cmp.Compare(a.Key.Kind, b.Key.Kind),
		)
	})
	return out
}

// attachAt attaches a route to the listeners that one of its parents names, and returns the route's condition there. A listener that does
// not let a namespace in is not told to that namespace: its routes hear the same whether a listener of that name and port exists or not.
func (s *Stage) attachAt(g *gateway, r *route, p model.ParentRef, attached []bool) model.Condition {
	named, allowed, hidden := false, false, false
	for i, l := range g.listeners {
		if r.Key.Namespace != g.Key.Namespace && !s.letsIn(g, l, r.Key.Namespace) {
			hidden = true
		}
		if p.Section != "" && p.Section != l.Name || p.Port != 0 && p.Port != l.Port {
			continue
		}
		named = true
		if slices.Contains(l.Kinds, r.Key.Kind) && s.letsIn(g, l, r.Key.Namespace) {
			allowed, attached[i] = true, true
		}
	}
	switch {
	case !named && !hidden:
		return model.Condition{
			Type: model.ConditionAccepted, Reason: model.ReasonNoMatchingParent,
			Message: fmt.Sprintf("Gateway %s has no listener of that name and port", g.Key),
		}
	case !allowed:
		return model.Condition{
			Type: model.ConditionAccepted, Reason: model.ReasonNotAllowedByListener,
			Message: fmt.Sprintf("no listener that the route names allows a %s of namespace %q", r.Key.Kind, r.Key.Namespace),
		}
	}
	return model.Condition{
		Type: model.ConditionAccepted, Status: true, Reason: model.ReasonAccepted,
		Message: "the route is attached; of several routes at a listener the oldest gets its traffic",
	}
}

// letsIn reports whether routes of a namespace may attach to a listener. A namespace that is not known may not.
func (s *Stage) letsIn(g *gateway, l listener, namespace string) bool {
	switch l.From {
	case model.RoutesFromAll:
		return true
	case model.RoutesFromSame:
		return namespace == g.Key.Namespace
	case model.RoutesFromSelector:
		ns := s.Cluster.Namespaces[namespace]
		return ns != nil && l.Selector != nil && l.Selector.Matches(ns.Labels)
	}
	return false
}

// resolvedRefs is a route's condition about the Services that it names.
func (s *Stage) resolvedRefs(g *gateway, r *route) model.Condition {
	c := model.Condition{
		Type: model.ConditionResolvedRefs, Status: true, Reason: model.ReasonResolvedRefs, Message: "every Service of the route is there",
	}
	var messages []string
	for _, b := range r.Backends {
		if _, p := s.lookUp(g, r, b); p != nil {
			if c.Status {
				c.Status, c.Reason = false, p.Reason
			}
			messages = append(messages, p.Message)
		}
	}
	if !c.Status {
		c.Message = strings.Join(messages, "; ")
	}
	return c
}

// port is a port of a Service, by its place there.
type port struct {
	*model.Service
	index int
}

// lookUp finds the port of a Service that a part of a route's traffic goes to, or says why there is none. Whether a Service
// of another namespace is there is told only to whom a grant lets refer to it.
func (s *Stage) lookUp(g *gateway, r *route, b model.RouteBackend) (port, *model.Problem) {
	if b.Kind != "" {
		return port{}, new(model.Problemf(model.ReasonInvalidKind, "%q is not a kind of backends that is served; name a Service", b.Kind))
	}
	if b.Service.Namespace != r.Key.Namespace {
		s.reads.grants.Note(g.Key, b.Service.Namespace)
		if !s.granted(r.Key, b.Service) {
			return port{}, new(model.Problemf(model.ReasonRefNotPermitted,
				"no ReferenceGrant of namespace %q lets a %s of %q refer to Service %q", b.Service.Namespace, r.Key.Kind, r.Key.Namespace,
				b.Service.Name))
		}
	}
	s.reads.services.Note(g.Key, b.Service)
	service := s.Services.Service(b.Service)
	if service == nil {
		return port{}, new(model.Problemf(model.ReasonBackendNotFound, "Service %s does not exist, or has no cluster IP", b.Service))
	}
	index := slices.IndexFunc(service.Ports, func(p model.ServicePort) bool {
		return p.Port == b.Port && p.Protocol == r.Key.Kind.Transport()
	})
	if index < 0 {
		return port{}, new(model.Problemf(model.ReasonBackendNotFound,
			"Service %s has no port %d of protocol %s", b.Service, b.Port, strings.ToUpper(string(r.Key.Kind.Transport()))))
	}
	return port{service, index}, nil
}

// granted reports whether a grant of the Service's namespace lets a route refer to it.
func (s *Stage) granted(from model.RouteKey, to model.ServiceKey) bool {
	for key := range s.grantsIn[to.Namespace] {
		if s.grants[key].Allows(from.Kind, from.Namespace, to.Name) {
			return true
		}
	}
	return false
}

// portsOf are the ports that a Gateway listens on and where each leads: one without a route leads nowhere. endpoints finds those of a
// Service.
func (s *Stage) portsOf(g *gateway, endpoints func(*model.Service, int, string) []netip.AddrPort) []compile.GatewayPort {
	var out []compile.GatewayPort
	for _, l := range g.listeners {
		if !l.serves() {
			continue
		}
		port := compile.GatewayPort{Protocol: l.Protocol, Port: l.Port}
		if l.first != nil {
			for _, b := range l.first.Backends {
				if to, problem := s.lookUp(g, l.first, b); problem == nil {
					port.Parts = append(port.Parts, compile.Part{Weight: b.Weight, Endpoints: endpoints(to.Service, to.index, g.network)})
				}
			}
		}
		out = append(out, port)
	}
	return out
}

// unparent takes from routes what a Gateway said that is ours no more.
func (s *Stage) unparent(key model.GatewayKey) {
	for k := range s.routesTo[key] {
		r := s.routes[k]
		for at, p := range r.Parents {
			if p.Gateway == key {
				delete(r.parents, at)
			}
		}
		s.reportedRoutes[k] = struct{}{}
	}
}

// drain says of a Gateway's ports which endpoints have been left.
func (s *Stage) drain(g *gateway, ports []compile.GatewayPort) {
	leads := map[drain.Endpoint]struct{}{}
	for _, p := range ports {
		if p.Protocol != model.UDP {
			continue
		}
		for _, part := range p.Parts {
			for _, e := range part.Endpoints {
				if part.Weight > 0 {
					leads[drain.Endpoint{Network: g.network, Port: p.Port, Address: e}] = struct{}{}
				}
			}
		}
	}
	for left := range s.Balancers.Leave(ownerOf(g.Key), leads, nil) {
		for i, p := range ports {
			if left.Network == g.network && p.Protocol == model.UDP && p.Port == left.Port {
				ports[i].Left = append(ports[i].Left, left.Address)
			}
		}
	}
}
