package decide_test

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// shownGateways are the statuses of Gateway API's objects that the controller wrote last.
type shownGateways struct {
	classes  map[string]model.GatewayClassStatus
	gateways map[model.GatewayKey]model.GatewayStatus
	routes   map[model.RouteKey]model.RouteStatus
}

func newShownGateways() shownGateways {
	return shownGateways{
		map[string]model.GatewayClassStatus{}, map[model.GatewayKey]model.GatewayStatus{}, map[model.RouteKey]model.RouteStatus{},
	}
}

func (c *cluster) WriteGatewayClassStatus(name, _ string, s model.GatewayClassStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown.classes[name] = s
}

// WriteGatewayStatus keeps the addresses on the Gateway, where the next controller finds them. That is no change that
// anybody is told of.
func (c *cluster) WriteGatewayStatus(key model.GatewayKey, uid string, s model.GatewayStatus) {
	if c.showingGateway != nil {
		c.showingGateway(key, s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown.gateways[key] = s
	if g := c.gateways[key]; g != nil && g.UID == uid {
		updated := *g
		updated.Held = slices.Clone(s.Addresses)
		c.gateways[key] = &updated
	}
}

func (c *cluster) WriteRouteStatus(key model.RouteKey, _ string, s model.RouteStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown.routes[key] = s
}

func (c *cluster) setClass(class model.GatewayClass) {
	c.change(func() { c.classes[class.Name] = &class; c.changes.Classes[class.Name] = &class })
}

func (c *cluster) deleteClass(name string) {
	c.change(func() { delete(c.classes, name); c.changes.Classes[name] = nil })
}

func (c *cluster) setGateway(g model.Gateway) {
	c.change(func() { c.gateways[g.Key] = &g; c.changes.Gateways[g.Key] = &g })
}

func (c *cluster) deleteGateway(key model.GatewayKey) {
	c.change(func() { delete(c.gateways, key); c.changes.Gateways[key] = nil })
}

func (c *cluster) setRoute(r model.Route) {
	c.change(func() { c.routes[r.Key] = &r; c.changes.Routes[r.Key] = &r })
}

func (c *cluster) deleteRoute(key model.RouteKey) {
	c.change(func() { delete(c.routes, key); c.changes.Routes[key] = nil })
}

func (c *cluster) setGrant(g model.Grant) {
	c.change(func() { c.grants[g.Key] = &g; c.changes.Grants[g.Key] = &g })
}

func (c *cluster) deleteGrant(key model.GrantKey) {
	c.change(func() { delete(c.grants, key); c.changes.Grants[key] = nil })
}

func (c *cluster) gatewayStatus(key model.GatewayKey) model.GatewayStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.gateways[key]
}

func (c *cluster) routeStatus(key model.RouteKey) model.RouteStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.routes[key]
}

// said is each condition in short: its type, and its reason, with a minus before it when it is false.
func said(conditions []model.Condition) map[string]string {
	out := map[string]string{}
	for _, c := range conditions {
		if out[c.Type] = c.Reason; !c.Status {
			out[c.Type] = "-" + c.Reason
		}
	}
	return out
}

// tcpGateway is a Gateway of class atoll that listens on a TCP port for each of the names: 1000, 1001 and so on.
func tcpGateway(ns, name string, listeners ...string) model.Gateway {
	g := model.Gateway{Key: model.GatewayKey{Namespace: ns, Name: name}, UID: "uid-" + ns + "-" + name, Class: "atoll", Generation: 1}
	for i, l := range listeners {
		g.Listeners = append(g.Listeners, model.Listener{
			Name: l, Protocol: model.TCP, Asked: "TCP", Port: uint16(1000 + i), Kinds: []model.RouteKind{model.TCPRoute}, From: model.RoutesFromSame,
		})
	}
	return g
}

// tcpRoute is a route to a Gateway of its namespace that leads to port 80 of Services there.
func tcpRoute(ns, name, gateway string, services ...string) model.Route {
	r := model.Route{
		Key: model.RouteKey{Kind: model.TCPRoute, Namespace: ns, Name: name}, UID: "uid-" + ns + "-" + name, Generation: 1,
		Parents: []model.ParentRef{{Gateway: model.GatewayKey{Namespace: ns, Name: gateway}, Own: true}},
	}
	for _, s := range services {
		r.Backends = append(r.Backends, model.RouteBackend{Service: model.ServiceKey{Namespace: ns, Name: s}, Port: 80, Weight: 1})
	}
	return r
}

func addressTexts(addresses []netip.Addr) []string {
	var out []string
	for _, a := range addresses {
		out = append(out, a.String())
	}
	return out
}
