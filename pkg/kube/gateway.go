package kube

import (
	"maps"
	"net/http"
	"reflect"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/atoll-net/atoll/pkg/intake"
	"github.com/atoll-net/atoll/pkg/model"
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

	classes  *gathered[string, model.GatewayClass]
	gateways *gathered[model.GatewayKey, model.Gateway]
	tcp, udp *gathered[model.RouteKey, model.Route]
	grants   *gathered[model.GrantKey, model.Grant]

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

// optional is a source of a kind that the cluster may not have, and may get or lose at any time.
type optional struct {
	source
	// listed reports whether all of the kind has been gathered, and lost says that the kind has gone with all its objects.
	// The caller holds Feed.mu.
	listed func() bool
	lost   func()
	// stop ends the watch and waits for that; nil while there is none.
	stop func()
}

func newGatewayFeed(f *Feed, client *rest.RESTClient, events *prometheus.CounterVec) *gatewayFeed {
	g := &gatewayFeed{
		client:   client,
		classes:  newGathered[string](same[model.GatewayClass]),
		gateways: newGathered[model.GatewayKey](sameGateway),
		tcp:      newGathered[model.RouteKey](same[model.Route]),
		udp:      newGathered[model.RouteKey](same[model.Route]),
		grants:   newGathered[model.GrantKey](same[model.Grant]),
		statuses: newGatewayStatuses(),
	}
	g.classes.gone = func(c *model.GatewayClass) { g.statuses.classes.forget(c.Name, c.UID) }
	g.gateways.gone = func(v *model.Gateway) { g.statuses.gateways.forget(v.Key, v.UID) }
	route := func(r *model.Route) { g.statuses.routes.forget(r.Key, r.UID) }
	g.tcp.gone, g.udp.gone = route, route
	g.sources = []optional{
		optionalSource(f, g, "gatewayclasses", &gatewayv1.GatewayClass{}, g.classes,
			func(_, name string) string { return name }, func(in *gatewayv1.GatewayClass) *model.GatewayClass {
				g.statuses.classes.observe(in.Name, in, in.Status)
				return intake.GatewayClass(in, f.gatewayVersion())
			}, events),
		optionalSource(f, g, "gateways", &gatewayv1.Gateway{}, g.gateways,
			gatewayKey, func(in *gatewayv1.Gateway) *model.Gateway {
				g.statuses.gateways.observe(gatewayKey(in.Namespace, in.Name), in, in.Status)
				return intake.Gateway(in)
			}, events),
		optionalSource(f, g, "tcproutes", &gatewayv1.TCPRoute{}, g.tcp,
			routeKey(model.TCPRoute), func(in *gatewayv1.TCPRoute) *model.Route {
				g.statuses.routes.observe(routeKey(model.TCPRoute)(in.Namespace, in.Name), in, in.Status.RouteStatus)
				return intake.TCPRoute(in)
			}, events),
		optionalSource(f, g, "udproutes", &gatewayv1.UDPRoute{}, g.udp,
			routeKey(model.UDPRoute), func(in *gatewayv1.UDPRoute) *model.Route {
				g.statuses.routes.observe(routeKey(model.UDPRoute)(in.Namespace, in.Name), in, in.Status.RouteStatus)
				return intake.UDPRoute(in)
			}, events),
		optionalSource(f, g, "referencegrants", &gatewayv1.ReferenceGrant{}, g.grants,
			func(namespace, name string) model.GrantKey {
				return model.GrantKey{Namespace: namespace, Name: name}
			}, intake.Grant, events),
	}
	return g
}

func optionalSource[O interface {
	metav1.Object
	runtime.Object
}, K comparable, V any](
	f *Feed, g *gatewayFeed, resource string, object O, to *gathered[K, V], key func(namespace, name string) K, read func(O) *V, events *prometheus.CounterVec,
) optional {
	return optional{
		source: source{
			name:   resource,
			lister: cache.NewListWatchFromClient(g.client, resource, metav1.NamespaceAll, fields.Everything()),
			object: object,
			store:  newStore(f, to, key, read, nil, events.WithLabelValues(resource)),
		},
		listed: func() bool { return to.listed },
		lost: func() {
			to.keepOnly(nil)
			to.listed = false
		},
	}
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
	g := f.gateways
	if !f.gatewaysSynced() {
		c.Classes, c.Gateways = map[string]*model.GatewayClass{}, map[model.GatewayKey]*model.Gateway{}
		c.Routes, c.Grants = map[model.RouteKey]*model.Route{}, map[model.GrantKey]*model.Grant{}
		return
	}
	c.Classes, c.Gateways, c.Grants = g.classes.take(), g.gateways.take(), g.grants.take()
	c.Routes = g.tcp.take()
	maps.Copy(c.Routes, g.udp.take())
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

func newGatewayClient(cfg *rest.Config, transport *http.Client) (*rest.RESTClient, error) {
	return newClient(cfg, transport, "Gateway", schema.GroupVersion(gatewayv1.GroupVersion), gatewayv1.Install)
}
