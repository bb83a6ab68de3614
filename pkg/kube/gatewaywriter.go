package kube

import (
	"context"
	"encoding/json"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/atoll-net/atoll/pkg/intake"
	"github.com/atoll-net/atoll/pkg/model"
)

// gatewayWorkers is how many statuses of one kind are written at once.
const gatewayWorkers = 4

// gatewayWriter writes the statuses of Gateway API's objects. What the API server holds already is not written.
type gatewayWriter struct {
	client   rest.Interface
	statuses gatewayStatuses
	classes  *outbox[string, reportOf[model.GatewayClassStatus]]
	gateways *outbox[model.GatewayKey, reportOf[model.GatewayStatus]]
	routes   *outbox[model.RouteKey, reportOf[model.RouteStatus]]
}

// reportOf is what is to be shown on the object with a UID.
type reportOf[S any] struct {
	uid    string
	report S
}

func (w *Writer) gatewaysFor(results *prometheus.CounterVec) *gatewayWriter {
	g := &gatewayWriter{client: w.clients.gateway, statuses: newGatewayStatuses()}
	g.classes = newOutbox("gatewayclass", g.patchClass, w.log, results)
	g.gateways = newOutbox("gateway", g.patchGateway, w.log, results)
	g.routes = newOutbox("route", g.patchRoute, w.log, results)
	return g
}

// WriteGatewayClassStatus shows a status on the GatewayClass with that UID.
func (w *Writer) WriteGatewayClassStatus(name, uid string, s model.GatewayClassStatus) {
	w.gateways.classes.put(name, reportOf[model.GatewayClassStatus]{uid, s}, 0)
}

// WriteGatewayStatus shows a status on the Gateway with that UID.
func (w *Writer) WriteGatewayStatus(gateway model.GatewayKey, uid string, s model.GatewayStatus) {
	w.gateways.gateways.put(gateway, reportOf[model.GatewayStatus]{uid, s}, 0)
}

// WriteRouteStatus shows on the route with that UID what its parents say that are ours. What other controllers say there
// stays.
func (w *Writer) WriteRouteStatus(route model.RouteKey, uid string, s model.RouteStatus) {
	w.gateways.routes.put(route, reportOf[model.RouteStatus]{uid, s}, 0)
}

func (g *gatewayWriter) patchClass(ctx context.Context, name string, want reportOf[model.GatewayClassStatus]) error {
	old, known := g.statuses.classes.held(name, want.uid)
	status := intake.GatewayClassStatus(old.status, want.report, metav1.Now())
	if !known || equality.Semantic.DeepEqual(old.status, status) {
		return unknownIsGone(known)
	}
	var answer gatewayv1.GatewayClass
	t := target{client: g.client, resource: "gatewayclasses", name: name, uid: want.uid}
	err := t.replaceStatus(ctx, old.version, status, &answer)
	if err == nil {
		g.statuses.classes.observe(name, &answer, answer.Status)
	}
	return err
}

func (g *gatewayWriter) patchGateway(ctx context.Context, key model.GatewayKey, want reportOf[model.GatewayStatus]) error {
	old, known := g.statuses.gateways.held(key, want.uid)
	status := intake.GatewayStatus(old.status, want.report, metav1.Now())
	if !known || equality.Semantic.DeepEqual(old.status, status) {
		return unknownIsGone(known)
	}
	var answer gatewayv1.Gateway
	t := target{client: g.client, resource: "gateways", namespace: key.Namespace, name: key.Name, uid: want.uid}
	err := t.replaceStatus(ctx, old.version, status, &answer)
	if err == nil {
		g.statuses.gateways.observe(key, &answer, answer.Status)
	}
	return err
}

func (g *gatewayWriter) patchRoute(ctx context.Context, key model.RouteKey, want reportOf[model.RouteStatus]) error {
	old, known := g.statuses.routes.held(key, want.uid)
	status := intake.RouteStatus(old.status, want.report, metav1.Now())
	if !known || equality.Semantic.DeepEqual(old.status.Parents, status.Parents) {
		return unknownIsGone(known)
	}
	t := target{client: g.client, resource: "tcproutes", namespace: key.Namespace, name: key.Name, uid: want.uid}
	if key.Kind == model.TCPRoute {
		var answer gatewayv1.TCPRoute
		err := t.replaceStatus(ctx, old.version, status, &answer)
		if err == nil {
			g.statuses.routes.observe(key, &answer, answer.Status.RouteStatus)
		}
		return err
	}
	t.resource = "udproutes"
	var answer gatewayv1.UDPRoute
	err := t.replaceStatus(ctx, old.version, status, &answer)
	if err == nil {
		g.statuses.routes.observe(key, &answer, answer.Status.RouteStatus)
	}
	return err
}

// unknownIsGone: the feed saw the object before anybody decided about it; what it does not know is no more.
func unknownIsGone(known bool) error {
	if known {
		return nil
	}
	return errGone
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

// run writes until ctx ends; see outbox.run.
func (g *gatewayWriter) run(ctx context.Context, start func(func())) {
	start(func() { g.classes.run(ctx, gatewayWorkers) })
	start(func() { g.gateways.run(ctx, gatewayWorkers) })
	start(func() { g.routes.run(ctx, gatewayWorkers) })
}
