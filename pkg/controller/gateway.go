package controller

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// gateways is what the controller knows of the objects of Gateway API, and where to look when something changes.
type gateways struct {
	classes map[string]*model.GatewayClass
	byKey   map[model.GatewayKey]*gateway
	routes  map[model.RouteKey]*route
	grants  map[model.GrantKey]*model.Grant
	// routesTo finds the routes that name a Gateway, and grantsIn the grants of a namespace.
	routesTo map[model.GatewayKey]map[model.RouteKey]struct{}
	grantsIn map[string]map[model.GrantKey]struct{}
	// concerned finds the Gateways that looked at something when they were last decided about.
	concerned map[concern]map[model.GatewayKey]struct{}
	// dirty Gateways are decided about when the Services have been looked at.
	dirty map[model.GatewayKey]struct{}
	// touched ones have a new status.
	touched        map[model.GatewayKey]struct{}
	touchedRoutes  map[model.RouteKey]struct{}
	touchedClasses map[string]struct{}
}

// concern is something that decides about a Gateway besides the Gateway itself and its routes.
type concern struct {
	what            concernKind
	namespace, name string
}

type concernKind uint8

const (
	// aboutClass and aboutNetwork have a name, aboutNamespace (its labels) and aboutGrants a namespace, aboutService both.
	aboutClass concernKind = iota
	aboutNetwork
	aboutNamespace
	aboutGrants
	aboutService
)

// gateway is a Gateway and what was decided about it.
type gateway struct {
	*model.Gateway
	// ours: its class is.
	ours     bool
	concerns []concern
	// network is where it holds addresses, and addresses what it holds there.
	network   string
	addresses []netip.Addr
	// former are what it held before, by its status or our memory: it gets them again if they are free.
	former []netip.Addr
	// resumed: what its status says has been taken again, ahead of what others want.
	resumed bool
	// unusable says why addresses that it asks for are not given; wanting why it has none at all.
	unusable, wanting *model.Problem
	listeners         []listener
	// written: its rows are in the database; denied: why the database refused them.
	written bool
	denied  *model.Problem
	// changed: the database does not have all its rows as they are wanted now. observed is the generation with which it had.
	changed  bool
	observed int64
}

// route is a route and what its parents say about it.
type route struct {
	*model.Route
	// parents by their place in the route.
	parents map[int][]model.Condition
}

func newGateways() gateways {
	return gateways{
		classes:        map[string]*model.GatewayClass{},
		byKey:          map[model.GatewayKey]*gateway{},
		routes:         map[model.RouteKey]*route{},
		grants:         map[model.GrantKey]*model.Grant{},
		routesTo:       map[model.GatewayKey]map[model.RouteKey]struct{}{},
		grantsIn:       map[string]map[model.GrantKey]struct{}{},
		concerned:      map[concern]map[model.GatewayKey]struct{}{},
		dirty:          map[model.GatewayKey]struct{}{},
		touched:        map[model.GatewayKey]struct{}{},
		touchedRoutes:  map[model.RouteKey]struct{}{},
		touchedClasses: map[string]struct{}{},
	}
}

// touch marks the Gateways that looked at something.
func (g *gateways) touch(c concern) { maps.Copy(g.dirty, g.concerned[c]) }

// touchServices marks the Gateways whose routes lead to Services.
func (g *gateways) touchServices(changed map[model.ServiceKey]struct{}) {
	if len(g.byKey) == 0 {
		return
	}
	for key := range changed {
		g.touch(concern{aboutService, key.Namespace, key.Name})
	}
}

// applyGateways takes objects of Gateway API in.
func (s *State) applyGateways(c model.Changes) {
	g := &s.gateways
	for name, class := range c.Classes {
		g.touch(concern{what: aboutClass, name: name})
		if class == nil {
			delete(g.classes, name)
			continue
		}
		g.classes[name] = class
		g.touchedClasses[name] = struct{}{}
	}
	for key, grant := range c.Grants {
		g.touch(concern{what: aboutGrants, namespace: key.Namespace})
		if grant == nil {
			delete(g.grants, key)
			drop(g.grantsIn, key.Namespace, key)
			continue
		}
		g.grants[key] = grant
		add(g.grantsIn, key.Namespace, key)
	}
	for key, r := range c.Routes {
		g.applyRoute(key, r)
	}
	for key, m := range c.Gateways {
		s.applyGateway(key, m)
	}
}

func (g *gateways) applyRoute(key model.RouteKey, r *model.Route) {
	if old := g.routes[key]; old != nil {
		for _, p := range old.Parents {
			drop(g.routesTo, p.Gateway, key)
			g.dirty[p.Gateway] = struct{}{}
		}
	}
	if r == nil {
		delete(g.routes, key)
		return
	}
	g.routes[key] = &route{Route: r, parents: map[int][]model.Condition{}}
	g.touchedRoutes[key] = struct{}{}
	for _, p := range r.Parents {
		add(g.routesTo, p.Gateway, key)
		g.dirty[p.Gateway] = struct{}{}
	}
}

func (s *State) applyGateway(key model.GatewayKey, m *model.Gateway) {
	g := &s.gateways
	g.dirty[key] = struct{}{}
	old := g.byKey[key]
	if old != nil && (m == nil || m.UID != old.UID) {
		s.leaveAddresses(old)
		g.forgetConcerns(old)
		delete(g.byKey, key)
		old = nil
	}
	switch {
	case m == nil:
	case old == nil:
		g.byKey[key] = &gateway{Gateway: m, former: m.Held}
	default:
		old.Gateway = m
	}
}

// serveGateways decides about the Gateways that something changed about, and then about those that waited for what these
// gave back.
func (s *State) serveGateways() {
	for len(s.gateways.dirty) > 0 {
		order := s.keepGateways()
		clear(s.gateways.dirty)
		for _, gw := range order {
			s.serveGateway(gw)
		}
	}
	s.reportGateways()
}

// keepGateways lets the Gateways that something changed about keep what addresses they have, and returns them in the order in
// which they may claim new ones: those that have some before those that want one, and older before younger, so that nobody loses
// an address to a newcomer.
func (s *State) keepGateways() []*gateway {
	g := &s.gateways
	for key := range g.dirty {
		gw := g.byKey[key]
		if gw == nil {
			s.noBalancers(nb.GatewayOwner(key.Namespace, key.Name))
			s.unparent(key)
			continue
		}
		// What comes free here is there for all that follow.
		s.settle(gw)
	}
	order := make([]*gateway, 0, len(g.dirty))
	for key := range g.dirty {
		if gw := g.byKey[key]; gw != nil {
			order = append(order, gw)
		}
	}
	slices.SortFunc(order, func(a, b *gateway) int {
		return cmp.Or(
			cmp.Compare(a.standing(), b.standing()),
			a.Created.Compare(b.Created),
			cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name),
		)
	})
	for _, gw := range order {
		s.keepAddresses(gw)
	}
	return order
}

// standing orders Gateways: 0 holds an address now, 1 held one before, 2 wants one.
func (g *gateway) standing() int {
	switch {
	case len(g.addresses) > 0:
		return 0
	case len(g.former) > 0:
		return 1
	}
	return 2
}

// settle finds out whether a Gateway is ours, and takes away what it may not have any more.
func (s *State) settle(g *gateway) {
	class := s.gateways.classes[g.Class]
	g.ours = class != nil && !class.Parameters
	if network := s.gatewayNetwork(g); !g.ours || network != g.network {
		s.leaveAddresses(g)
		g.network = network
	}
}

// gatewayNetwork is the name of the Network that a Gateway belongs to: its namespace's; flat ones share the default one's.
func (s *State) gatewayNetwork(g *gateway) string {
	if ns := s.namespaces[g.Key.Namespace]; ns != nil {
		return s.space(s.homeOf(*ns))
	}
	return ""
}

// serveGateway decides about one Gateway and compiles it.
func (s *State) serveGateway(g *gateway) {
	owner := nb.GatewayOwner(g.Key.Namespace, g.Key.Name)
	s.gateways.forgetConcerns(g)
	s.consider(g, concern{what: aboutClass, name: g.Class})
	s.consider(g, concern{what: aboutNamespace, namespace: g.Key.Namespace})
	if !g.ours {
		g.written, g.denied = false, nil
		s.noBalancers(owner)
		s.unparent(g.Key)
		return
	}
	s.gateways.touched[g.Key] = struct{}{}
	s.consider(g, concern{what: aboutNetwork, name: g.network})
	if ns := s.namespaces[g.Key.Namespace]; ns != nil {
		// Which one that is depends on whether this one is flat.
		s.consider(g, concern{what: aboutNetwork, name: s.homeOf(*ns)})
	}
	g.listeners = listenersOf(*g.Gateway)
	s.attach(g)
	n := s.networks[g.network]
	s.address(g, n)
	if len(g.addresses) == 0 {
		g.written, g.denied = false, nil
		s.noBalancers(owner)
		return
	}
	if _, had := s.graph.Facts(owner); !had {
		g.written = false
	}
	ports := s.portsOf(g, n)
	s.departFromGateway(g, n, ports)
	g.changed = s.setBalancers(owner, compile.Gateway(*g.Gateway, n.layout, g.addresses, ports)) || g.changed
	if g.written && !g.changed {
		g.observed = g.Generation
	}
}

// consider remembers that a Gateway is to be decided about again when something changes.
func (s *State) consider(g *gateway, c concern) {
	if _, known := s.gateways.concerned[c][g.Key]; known {
		return
	}
	add(s.gateways.concerned, c, g.Key)
	g.concerns = append(g.concerns, c)
}

func (g *gateways) forgetConcerns(of *gateway) {
	for _, c := range of.concerns {
		drop(g.concerned, c, of.Key)
	}
	of.concerns = nil
}

// gatewayCommitted says that the database now holds what the graph wants for a Gateway.
func (s *State) gatewayCommitted(key model.GatewayKey) {
	g, owner := s.gateways.byKey[key], nb.GatewayOwner(key.Namespace, key.Name)
	if g == nil || !g.ours || s.graph.Busy(owner) {
		return
	}
	_, wanted := s.graph.Facts(owner)
	g.changed = false
	if g.written == wanted && g.denied == nil && g.observed == g.Generation {
		return
	}
	g.written, g.denied, g.observed = wanted, nil, g.Generation
	s.gateways.touched[key] = struct{}{}
	s.reportGateways()
}

// gatewayRefused says that the database does not accept a Gateway's rows.
func (s *State) gatewayRefused(key model.GatewayKey, problem model.Problem) {
	if g := s.gateways.byKey[key]; g != nil && g.ours {
		g.denied = &problem
		s.gateways.touched[key] = struct{}{}
		s.reportGateways()
	}
}

// gatewaysUnwritten says that what the database holds is not known.
func (s *State) gatewaysUnwritten() {
	for key, g := range s.gateways.byKey {
		if g.written {
			g.written = false
			s.gateways.touched[key] = struct{}{}
		}
	}
	s.reportGateways()
}
