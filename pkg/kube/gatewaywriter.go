package kube

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// gatewayWorkers is how many statuses of one kind are written at once.
const gatewayWorkers = 4

// gatewayWriter writes the statuses of Gateway API's objects. What the API server holds already is not written.
type gatewayWriter struct {
	client   rest.Interface
	statuses gatewayStatuses
	classes  *outbox[string, decided[model.GatewayClassStatus]]
	gateways *outbox[model.GatewayKey, decided[model.GatewayStatus]]
	routes   *outbox[model.RouteKey, decided[model.RouteStatus]]
}

func (w *Writer) newGateways() *gatewayWriter {
	g := &gatewayWriter{client: w.clients.gateway, statuses: newGatewayStatuses()}
	g.classes = newOutbox(&w.boxes, "gatewayclass", gatewayWorkers, g.patchClass)
	g.gateways = newOutbox(&w.boxes, "gateway", gatewayWorkers, g.patchGateway)
	g.routes = newOutbox(&w.boxes, "route", gatewayWorkers, g.patchRoute)
	return g
}

// WriteGatewayClassStatus shows a status on the GatewayClass with that UID.
func (w *Writer) WriteGatewayClassStatus(name, uid string, s model.GatewayClassStatus) {
	w.gateways.classes.put(name, decided[model.GatewayClassStatus]{uid, s}, 0)
}

// WriteGatewayStatus shows a status on the Gateway with that UID.
func (w *Writer) WriteGatewayStatus(gateway model.GatewayKey, uid string, s model.GatewayStatus) {
	w.gateways.gateways.put(gateway, decided[model.GatewayStatus]{uid, s}, 0)
}

// WriteRouteStatus shows on the route with that UID what its parents say that are ours. What other controllers say there
// stays.
func (w *Writer) WriteRouteStatus(route model.RouteKey, uid string, s model.RouteStatus) {
	w.gateways.routes.put(route, decided[model.RouteStatus]{uid, s}, 0)
}

func (g *gatewayWriter) patchClass(ctx context.Context, name string, want decided[model.GatewayClassStatus]) error {
	return changeStatus(ctx, target{client: g.client, resource: "gatewayclasses", name: name, uid: want.uid}, g.statuses.classes, name,
		func(old gatewayv1.GatewayClassStatus) gatewayv1.GatewayClassStatus {
			return intake.GatewayClassStatus(old, want.value, metav1.Now())
		}, &gatewayv1.GatewayClass{}, func(c *gatewayv1.GatewayClass) gatewayv1.GatewayClassStatus { return c.Status })
}

func (g *gatewayWriter) patchGateway(ctx context.Context, key model.GatewayKey, want decided[model.GatewayStatus]) error {
	t := target{client: g.client, resource: "gateways", namespace: key.Namespace, name: key.Name, uid: want.uid}
	return changeStatus(ctx, t, g.statuses.gateways, key,
		func(old gatewayv1.GatewayStatus) gatewayv1.GatewayStatus {
			return intake.GatewayStatus(old, want.value, metav1.Now())
		}, &gatewayv1.Gateway{}, func(g *gatewayv1.Gateway) gatewayv1.GatewayStatus { return g.Status })
}

func (g *gatewayWriter) patchRoute(ctx context.Context, key model.RouteKey, want decided[model.RouteStatus]) error {
	t := target{client: g.client, resource: "tcproutes", namespace: key.Namespace, name: key.Name, uid: want.uid}
	change := func(old gatewayv1.RouteStatus) gatewayv1.RouteStatus {
		return intake.RouteStatus(old, want.value, metav1.Now())
	}
	if key.Kind == model.TCPRoute {
		return changeStatus(ctx, t, g.statuses.routes, key, change, &gatewayv1.TCPRoute{},
			func(r *gatewayv1.TCPRoute) gatewayv1.RouteStatus { return r.Status.RouteStatus })
	}
	t.resource = "udproutes"
	return changeStatus(ctx, t, g.statuses.routes, key, change, &gatewayv1.UDPRoute{},
		func(r *gatewayv1.UDPRoute) gatewayv1.RouteStatus { return r.Status.RouteStatus })
}

// object is what the API server answers.
type object interface {
	metav1.Object
	runtime.Object
}

// changeStatus writes the status of an object as it is to be after the one that the API server holds, unless that is the same. What the
// API server answers is kept as what it holds from then on.
func changeStatus[K comparable, S any, O object](
	ctx context.Context, t target, holds *statuses[K, S], key K, change func(old S) S, answer O, statusOf func(O) S,
) error {
	old, known := holds.held(key, t.uid)
	if !known {
		return errGone // The feed saw the object before anybody decided about it: it is no more.
	}
	status := change(old.status)
	if equality.Semantic.DeepEqual(old.status, status) {
		return nil
	}
	err := t.replaceStatus(ctx, old.version, status, answer)
	if err == nil {
		holds.observe(key, answer, statusOf(answer))
	}
	return err
}

// replaceStatus writes the status of exactly the object that was read: other controllers write to these statuses too.
// Whoever comes second is refused, and reads again.
func (t target) replaceStatus(ctx context.Context, version string, status any, answer runtime.Object) error {
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": t.uid},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": version},
		{"op": "add", "path": "/status", "value": status},
	})
	if err != nil {
		return err
	}
	return t.outcome(ctx, t.patch(types.JSONPatchType, "status", body).Do(ctx).Into(answer))
}
