package kube

import (
	"reflect"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// gatewayFeed is the part of a Feed that is there while the cluster has Gateway API. Feed.mu guards what is gathered, and
// version.
type gatewayFeed struct {
	client  *rest.RESTClient
	sources []optional
	// known: the API server has said once which kinds it has.
	known bool
	// version is what it has of Gateway API.
	version string

	statuses gatewayStatuses
}

// gatewayStatuses are what the API server holds of the statuses that the Writer writes.
type gatewayStatuses struct {
	classes  *statuses[string, gatewayv1.GatewayClassStatus]
	gateways *statuses[model.GatewayKey, gatewayv1.GatewayStatus]
	routes   *statuses[model.RouteKey, gatewayv1.RouteStatus]
}

func newGatewayStatuses() gatewayStatuses {
	return gatewayStatuses{
		classes:  newStatuses[string, gatewayv1.GatewayClassStatus](),
		gateways: newStatuses[model.GatewayKey, gatewayv1.GatewayStatus](),
		routes:   newStatuses[model.RouteKey, gatewayv1.RouteStatus](),
	}
}

// optional is a kind that the cluster may not have, and may get or lose at any time.
type optional struct {
	kind
	// lost says that the kind has gone with all its objects. The caller holds Feed.mu.
	lost func()
	// stop ends the watch and waits for that; nil while there is none.
	stop func()
}

func newGatewayFeed(f *Feed, client *rest.RESTClient, events *prometheus.CounterVec) *gatewayFeed {
	g := &gatewayFeed{client: client, statuses: newGatewayStatuses()}
	classes, gateways := newGathered[string](same[model.GatewayClass]), newGathered[model.GatewayKey](sameGateway)
	tcp, udp := newGathered[model.RouteKey](same[model.Route]), newGathered[model.RouteKey](same[model.Route])
	classes.gone = func(c *model.GatewayClass) { g.statuses.classes.forget(c.Name, c.UID) }
	gateways.gone = func(v *model.Gateway) { g.statuses.gateways.forget(v.Key, v.UID) }
	route := func(r *model.Route) { g.statuses.routes.forget(r.Key, r.UID) }
	tcp.gone, udp.gone = route, route
	routes := func(c *model.Changes) *map[model.RouteKey]*model.Route { return &c.Routes }
	g.sources = []optional{
		optionalKind(f, g, "gatewayclasses", classes, byName, func(in *gatewayv1.GatewayClass) *model.GatewayClass {
			g.statuses.classes.observe(in.Name, in, in.Status)
			return intake.GatewayClass(in, f.gatewayVersion())
		}, func(c *model.Changes) *map[string]*model.GatewayClass { return &c.Classes }, events),
		optionalKind(f, g, "gateways", gateways, gatewayKey, func(in *gatewayv1.Gateway) *model.Gateway {
			g.statuses.gateways.observe(gatewayKey(in.Namespace, in.Name), in, in.Status)
			return intake.Gateway(in)
		}, func(c *model.Changes) *map[model.GatewayKey]*model.Gateway { return &c.Gateways }, events),
		optionalKind(f, g, "tcproutes", tcp, routeKey(model.TCPRoute), func(in *gatewayv1.TCPRoute) *model.Route {
			g.statuses.routes.observe(routeKey(model.TCPRoute)(in.Namespace, in.Name), in, in.Status.RouteStatus)
			return intake.TCPRoute(in)
		}, routes, events),
		optionalKind(f, g, "udproutes", udp, routeKey(model.UDPRoute), func(in *gatewayv1.UDPRoute) *model.Route {
			g.statuses.routes.observe(routeKey(model.UDPRoute)(in.Namespace, in.Name), in, in.Status.RouteStatus)
			return intake.UDPRoute(in)
		}, routes, events),
		optionalKind(f, g, "referencegrants", newGathered[model.GrantKey](same[model.Grant]), func(namespace, name string) model.GrantKey {
			return model.GrantKey{Namespace: namespace, Name: name}
		}, intake.Grant, func(c *model.Changes) *map[model.GrantKey]*model.Grant { return &c.Grants }, events),
	}
	return g
}

func optionalKind[O metav1.Object, K comparable, V any](
	f *Feed, g *gatewayFeed, resource string, to *gathered[K, V], key func(namespace, name string) K, read func(O) *V,
	into func(*model.Changes) *map[K]*V, events *prometheus.CounterVec,
) optional {
	lister := cache.NewListWatchFromClient(g.client, resource, metav1.NamespaceAll, fields.Everything())
	return optional{kind: watched(f, events, resource, lister, to, key, read, into), lost: func() {
		to.keepOnly(nil)
		to.listed = false
	}}
}

// gatewaysSynced reports whether all that the cluster has of Gateway API has been gathered. The caller holds mu.
func (f *Feed) gatewaysSynced() bool {
	if !f.gateways.known {
		return false
	}
	for _, s := range f.gateways.sources {
		if s.stop != nil && !s.listed() {
			return false
		}
	}
	return true
}

// takeGateways hands over what was gathered of Gateway API: a Gateway not before its routes and grants. The caller holds
// mu.
func (f *Feed) takeGateways(c *model.Changes) {
	if !f.gatewaysSynced() {
		return
	}
	for _, s := range f.gateways.sources {
		s.take(c)
	}
}

func (f *Feed) gatewayVersion() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gateways.version
}

func gatewayKey(namespace, name string) model.GatewayKey {
	return model.GatewayKey{Namespace: namespace, Name: name}
}

func routeKey(kind model.RouteKind) func(namespace, name string) model.RouteKey {
	return func(namespace, name string) model.RouteKey {
		return model.RouteKey{Kind: kind, Namespace: namespace, Name: name}
	}
}

// same is for kinds that change rarely.
func same[V any](a, b *V) bool { return reflect.DeepEqual(a, b) }

// sameGateway leaves out what the status says: that changes with our own writes.
func sameGateway(a, b *model.Gateway) bool {
	x, y := *a, *b
	x.Held, y.Held = nil, nil
	return reflect.DeepEqual(x, y)
}
