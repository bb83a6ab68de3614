//go:build integration

package kube

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// gatewayObjects are one of each kind; the route has another controller's status.
const gatewayObjects = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: atoll}
spec: {controllerName: atoll.dev/vip}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: others}
spec: {controllerName: example.com/other}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: front, namespace: default}
spec:
  gatewayClassName: atoll
  listeners:
  - {name: web, protocol: TCP, port: 80}
  - {name: dns, protocol: UDP, port: 53, allowedRoutes: {namespaces: {from: All}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: web, namespace: default}
spec:
  parentRefs: [{name: front, sectionName: web}]
  rules: [{backendRefs: [{name: web, port: 80, weight: 3}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: web, namespace: default}
spec:
  parentRefs: [{name: front, namespace: default, port: 53}]
  rules: [{backendRefs: [{name: dns, namespace: kube-system, port: 53}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: dns, namespace: kube-system}
spec:
  from: [{group: gateway.networking.k8s.io, kind: UDPRoute, namespace: default}]
  to: [{group: "", kind: Service, name: dns}]
`

func (l *lab) apply(manifests string) {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "objects.yaml")
	must(l.t, os.WriteFile(file, []byte(manifests), 0o600))
	_, err := l.server.Kubectl(l.ctx, "apply", "--server-side", "-f", file)
	must(l.t, err)
}

func (l *lab) read(into any, kind, name string) {
	l.t.Helper()
	raw, err := l.server.Kubectl(l.ctx, "get", "-n", "default", kind, name, "-o", "json")
	must(l.t, err)
	must(l.t, json.Unmarshal(raw, into))
}

func TestGatewayAPIMayComeAndGo(t *testing.T) {
	l := newLab(t)
	l.until("sync without Gateway API", func(model.Changes) bool { return l.feed.Synced() })
	must(t, l.server.EstablishGatewayAPI(l.ctx))
	l.apply(gatewayObjects)
	front := gatewayKey("default", "front")
	tcp, udp := routeKey(model.TCPRoute)("default", "web"), routeKey(model.UDPRoute)("default", "web")
	l.until("all kinds to come", func(c model.Changes) bool {
		return c.Classes["atoll"] != nil && c.Gateways[front] != nil && c.Routes[tcp] != nil && c.Routes[udp] != nil && len(c.Grants) == 1
	})
	if got := l.seen.Classes["atoll"].Version; !strings.HasPrefix(got, "v1.6.") || l.seen.Classes["others"] != nil {
		t.Errorf("version %q of Gateway API; classes %v", got, l.seen.Classes)
	}
	want := []model.Listener{
		{Name: "web", Protocol: model.TCP, Asked: "TCP", Port: 80, Kinds: []model.RouteKind{model.TCPRoute}, From: model.RoutesFromSame},
		{Name: "dns", Protocol: model.UDP, Asked: "UDP", Port: 53, Kinds: []model.RouteKind{model.UDPRoute}, From: model.RoutesFromAll},
	}
	if diff := cmp.Diff(want, l.seen.Gateways[front].Listeners); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]model.ParentRef{{Gateway: front, Port: 53}}, l.seen.Routes[udp].Parents); diff != "" {
		t.Error(diff)
	}
	_, err := l.server.Kubectl(l.ctx, "delete", "crd", "udproutes.gateway.networking.k8s.io")
	must(t, err)
	l.until("one kind to go", func(c model.Changes) bool { return c.Routes[udp] == nil })
	if l.seen.Routes[tcp] == nil || l.seen.Gateways[front] == nil || !l.feed.Synced() {
		t.Error("other kinds went too")
	}
	_, err = l.server.Kubectl(l.ctx, "delete", "crd", "gatewayclasses.gateway.networking.k8s.io", "gateways.gateway.networking.k8s.io")
	must(t, err)
	l.until("more kinds to go", func(c model.Changes) bool { return c.Classes["atoll"] == nil && c.Gateways[front] == nil })
	if !l.feed.Synced() {
		t.Error("the feed waits for kinds that are not there")
	}
}

func TestStatusesOfGatewayAPI(t *testing.T) {
	l := newLab(t)
	must(t, l.server.EstablishGatewayAPI(l.ctx))
	l.apply(gatewayObjects)
	front, tcp := gatewayKey("default", "front"), routeKey(model.TCPRoute)("default", "web")
	others := `{"status":{"parents":[{"controllerName":"example.com/other","parentRef":{"name":"else"},"conditions":[{"type":"Accepted","status":"True","reason":"Accepted","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}]}}`
	_, err := l.server.Kubectl(l.ctx, "patch", "tcproute", "web", "--subresource=status", "--type=merge", "-p", others)
	must(t, err)
	l.until("all kinds to come", func(c model.Changes) bool {
		return c.Classes["atoll"] != nil && c.Gateways[front] != nil && c.Routes[tcp] != nil
	})
	accepted := []model.Condition{{Type: model.ConditionAccepted, Status: true, Reason: model.ReasonAccepted, Message: "fine"}}
	gateway := model.GatewayStatus{
		ObservedGeneration: 1, Conditions: accepted, Addresses: []netip.Addr{netip.MustParseAddr("198.18.0.1")},
		Listeners: []model.ListenerStatus{{Name: "web", Kinds: []model.RouteKind{model.TCPRoute}, Attached: 1, Conditions: accepted}},
	}
	route := model.RouteStatus{
		ObservedGeneration: 1, Parents: []model.ParentStatus{{Parent: l.seen.Routes[tcp].Parents[0], Conditions: accepted}},
	}
	write := func() {
		l.writer.WriteGatewayClassStatus("atoll", l.seen.Classes["atoll"].UID, model.GatewayClassStatus{
			ObservedGeneration: 1, Conditions: accepted, Features: []string{"Gateway", "TCPRoute"},
		})
		l.writer.WriteGatewayStatus(front, l.seen.Gateways[front].UID, gateway)
		l.writer.WriteRouteStatus(tcp, l.seen.Routes[tcp].UID, route)
		l.flush()
	}
	write()
	var class gatewayv1.GatewayClass
	var g gatewayv1.Gateway
	var r gatewayv1.TCPRoute
	l.read(&class, "gatewayclass", "atoll")
	l.read(&g, "gateway", "front")
	l.read(&r, "tcproute", "web")
	if len(class.Status.SupportedFeatures) != 2 || class.Status.Conditions[0].Reason != "Accepted" {
		t.Errorf("class: %+v", class.Status)
	}
	if len(g.Status.Addresses) != 1 || g.Status.Addresses[0].Value != "198.18.0.1" || len(g.Status.Listeners) != 1 ||
		g.Status.Listeners[0].AttachedRoutes != 1 {
		t.Errorf("gateway: %+v", g.Status)
	}
	if len(r.Status.Parents) != 2 || r.Status.Parents[0].ControllerName != "example.com/other" ||
		r.Status.Parents[1].ControllerName != model.GatewayController {
		t.Errorf("route: %+v", r.Status)
	}

	// What is there already is not written.
	write()
	var again gatewayv1.Gateway
	var same gatewayv1.TCPRoute
	l.read(&again, "gateway", "front")
	l.read(&same, "tcproute", "web")
	if again.ResourceVersion != g.ResourceVersion || same.ResourceVersion != r.ResourceVersion {
		t.Error("a status was written again that is there already")
	}

	// What another controller writes meanwhile stays.
	_, err = l.server.Kubectl(l.ctx, "patch", "tcproute", "web", "--subresource=status", "--type=json", "-p",
		`[{"op":"add","path":"/status/parents/-","value":{"controllerName":"example.com/third","parentRef":{"name":"else"},"conditions":[{"type":"Accepted","status":"True","reason":"Accepted","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}]`)
	must(t, err)
	route.Parents = nil
	write()
	l.read(&r, "tcproute", "web")
	var left []string
	for _, p := range r.Status.Parents {
		left = append(left, string(p.ControllerName))
	}
	if diff := cmp.Diff([]string{"example.com/other", "example.com/third"}, left); diff != "" {
		t.Error(diff)
	}
}
