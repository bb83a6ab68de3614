package gateways

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Stage is what is known of the objects of Gateway API, and what was decided about them.
type Stage struct {
	World
	classes  map[string]*model.GatewayClass
	gateways map[model.GatewayKey]*gateway
	routes   map[model.RouteKey]*route
	grants   map[model.GrantKey]*model.Grant
	// routesTo finds the routes that name a Gateway, and grantsIn the grants of a namespace.
	routesTo pass.Index[model.GatewayKey, model.RouteKey]
	grantsIn pass.Index[string, model.GrantKey]
	// queue holds the Gateways that something has changed about, and rows those whose rows are to be made.
	queue, rows *pass.Queue[model.GatewayKey]
	reads       reads
	// classChanged tells of classes, and grantsChanged of namespaces with other grants.
	classChanged, grantsChanged *pass.Topic[string]
	// reported ones have a new status.
	reported        map[model.GatewayKey]struct{}
	reportedRoutes  map[model.RouteKey]struct{}
	reportedClasses map[string]struct{}
}

// reads are what Gateways looked at when they were last decided about, besides themselves and their routes.
type reads struct {
	classes, networks, namespaces, grants *pass.Reads[model.GatewayKey, string]
	services                              *pass.Reads[model.GatewayKey, model.ServiceKey]
}

// gateway is a Gateway and what was decided about it.
type gateway struct {
	*model.Gateway
	// ours: its class is.
	ours bool
	// network is where it asks for addresses, and addresses what it has there.
	network   string
	addresses []netip.Addr
	// former are what it had last, by its status or our memory: it gets them again if they are free.
	former []netip.Addr
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

// New makes a stage that knows nothing yet. It claims addresses in the stage claims, and makes rows in the stage rows, when they have
// been granted.
func New(world World, claims, rows pass.Stage) *Stage {
	s := &Stage{
		World:           world,
		classes:         map[string]*model.GatewayClass{},
		gateways:        map[model.GatewayKey]*gateway{},
		routes:          map[model.RouteKey]*route{},
		grants:          map[model.GrantKey]*model.Grant{},
		routesTo:        pass.Index[model.GatewayKey, model.RouteKey]{},
		grantsIn:        pass.Index[string, model.GrantKey]{},
		queue:           pass.NewQueue[model.GatewayKey](claims),
		rows:            pass.NewQueue[model.GatewayKey](rows),
		classChanged:    pass.NewTopic[string](claims),
		grantsChanged:   pass.NewTopic[string](claims),
		reported:        map[model.GatewayKey]struct{}{},
		reportedRoutes:  map[model.RouteKey]struct{}{},
		reportedClasses: map[string]struct{}{},
	}
	s.reads = reads{
		classes:    pass.NewReads(s.queue, s.classChanged),
		networks:   pass.NewReads(s.queue, world.NetworkChanged),
		namespaces: pass.NewReads(s.queue, world.Cluster.NamespaceChanged),
		grants:     pass.NewReads(s.queue, s.grantsChanged),
		services:   pass.NewReads(s.rows, world.ServiceChanged),
	}
	mark := func(owner nb.Owner) {
		if owner.Kind == nb.KindGateway {
			s.rows.Mark(keyOf(owner))
		}
	}
	world.Virtual.Granted.Follow(rows, mark)
	world.Quotas.Turned.Follow(claims, s.queue.Mark)
	world.Balancers.Elapsed.Follow(rows, mark)
	return s
}

// keyOf is the Gateway that owner is.
func keyOf(owner nb.Owner) model.GatewayKey {
	return model.GatewayKey{Namespace: owner.Namespace, Name: owner.Name}
}

func ownerOf(key model.GatewayKey) nb.Owner { return nb.GatewayOwner(key.Namespace, key.Name) }

// forget drops what a Gateway has looked at.
func (s *Stage) forget(key model.GatewayKey) {
	for _, names := range []*pass.Reads[model.GatewayKey, string]{s.reads.classes, s.reads.networks, s.reads.namespaces, s.reads.grants} {
		names.Forget(key)
	}
	s.reads.services.Forget(key)
}

// Take takes objects of Gateway API in.
func (s *Stage) Take(c model.Changes) {
	for name, class := range c.Classes {
		s.classChanged.Changed(name)
		if class == nil {
			delete(s.classes, name)
			continue
		}
		s.classes[name] = class
		s.reportedClasses[name] = struct{}{}
	}
	for key, grant := range c.Grants {
		s.grantsChanged.Changed(key.Namespace)
		if grant == nil {
			delete(s.grants, key)
			s.grantsIn.Drop(key.Namespace, key)
			continue
		}
		s.grants[key] = grant
		s.grantsIn.Add(key.Namespace, key)
	}
	for key, r := range c.Routes {
		s.takeRoute(key, r)
	}
	for key, m := range c.Gateways {
		s.takeGateway(key, m)
	}
}

func (s *Stage) takeRoute(key model.RouteKey, r *model.Route) {
	if old := s.routes[key]; old != nil {
		for _, p := range old.Parents {
			s.routesTo.Drop(p.Gateway, key)
			s.queue.Mark(p.Gateway)
		}
	}
	if r == nil {
		delete(s.routes, key)
		return
	}
	s.routes[key] = &route{Route: r, parents: map[int][]model.Condition{}}
	s.reportedRoutes[key] = struct{}{}
	for _, p := range r.Parents {
		s.routesTo.Add(p.Gateway, key)
		s.queue.Mark(p.Gateway)
	}
}

func (s *Stage) takeGateway(key model.GatewayKey, m *model.Gateway) {
	s.queue.Mark(key)
	old := s.gateways[key]
	if old != nil && (m == nil || m.UID != old.UID) {
		s.Virtual.Withdraw(ownerOf(key))
		delete(s.gateways, key)
		old = nil
	}
	switch {
	case m == nil:
	case old == nil:
		s.gateways[key] = &gateway{Gateway: m, former: m.Held}
	default:
		old.Gateway = m
	}
}

// Compile makes the rows of the Gateways that something has changed about, or that were granted addresses.
func (s *Stage) Compile() {
	for key := range s.rows.Take() {
		g := s.gateways[key]
		if g != nil && g.ours {
			s.compile(g)
			continue
		}
		if g != nil {
			g.written, g.denied = false, nil
		}
		s.Balancers.Delete(ownerOf(key))
		s.unparent(key)
	}
}

// compile makes the rows of a Gateway that is ours.
func (s *Stage) compile(g *gateway) {
	owner := ownerOf(g.Key)
	s.reported[g.Key] = struct{}{}
	g.listeners = listenersOf(*g.Gateway)
	s.attach(g)
	s.address(g)
	if len(g.addresses) == 0 {
		g.written, g.denied = false, nil
		s.Balancers.Delete(owner)
		return
	}
	if _, had := s.Graph.Facts(owner); !had {
		g.written = false
	}
	ports := s.portsOf(g, s.Services.Endpoints)
	s.drain(g, ports)
	facts := compile.Gateway(*g.Gateway, s.Networks.Layout(g.network), g.addresses, ports)
	facts.Add(s.offer(g))
	g.changed = s.Balancers.Set(owner, facts) || g.changed
	if g.written && !g.changed {
		g.observed = g.Generation
	}
}

// Committed says that the database now holds what the graph wants for a Gateway.
func (s *Stage) Committed(owner nb.Owner) {
	key := keyOf(owner)
	g := s.gateways[key]
	if g == nil || !g.ours || s.Graph.Busy(owner) {
		return
	}
	_, wanted := s.Graph.Facts(owner)
	g.changed = false
	if g.written == wanted && g.denied == nil && g.observed == g.Generation {
		return
	}
	g.written, g.denied, g.observed = wanted, nil, g.Generation
	s.reported[key] = struct{}{}
}

// Refused says that the database does not accept a Gateway's rows.
func (s *Stage) Refused(owner nb.Owner, problem model.Problem) {
	key := keyOf(owner)
	if g := s.gateways[key]; g != nil && g.ours {
		g.denied = &problem
		s.reported[key] = struct{}{}
	}
}

// Disconnected says that what the database holds is not known.
func (s *Stage) Disconnected() {
	for key, g := range s.gateways {
		if g.written {
			g.written = false
			s.reported[key] = struct{}{}
		}
	}
}
