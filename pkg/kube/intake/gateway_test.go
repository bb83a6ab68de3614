package intake

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// parsed is an object as its manifest says.
func parsed[T any](t *testing.T, manifest string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(manifest), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestListeners(t *testing.T) {
	tcp, udp := []model.RouteKind{model.TCPRoute}, []model.RouteKind{model.UDPRoute}
	team := &match.Selector{Requirements: []match.Requirement{{Key: "team", Op: match.In, Values: []string{"a"}}}}
	for manifest, want := range map[string]model.Listener{
		`{name: a, protocol: TCP, port: 80}`:    {Name: "a", Protocol: model.TCP, Asked: "TCP", Port: 80, Kinds: tcp, From: model.RoutesFromSame},
		`{name: a, protocol: UDP, port: 53}`:    {Name: "a", Protocol: model.UDP, Asked: "UDP", Port: 53, Kinds: udp, From: model.RoutesFromSame},
		`{name: a, protocol: HTTP, port: 80}`:   {Name: "a", Asked: "HTTP", Port: 80, From: model.RoutesFromSame},
		`{name: a, protocol: TCP, port: 70000}`: {Name: "a", Protocol: model.TCP, Asked: "TCP", Kinds: tcp, From: model.RoutesFromSame},
		`{name: a, protocol: TCP, port: 80, allowedRoutes: {namespaces: {from: All}}}`: {
			Name: "a", Protocol: model.TCP, Asked: "TCP", Port: 80, Kinds: tcp, From: model.RoutesFromAll,
		},
		`{name: a, protocol: TCP, port: 80, allowedRoutes: {namespaces: {from: None}}}`: {
			Name: "a", Protocol: model.TCP, Asked: "TCP", Port: 80, Kinds: tcp, From: model.RoutesFromNone,
		},
		`{name: a, protocol: TCP, port: 80, allowedRoutes: {namespaces: {from: Friends}}}`: {
			Name: "a", Protocol: model.TCP, Asked: "TCP", Port: 80, Kinds: tcp, From: model.RoutesFromNone,
		},
		`{name: a, protocol: TCP, port: 80, allowedRoutes: {namespaces: {from: Selector}}}`: {
			Name: "a", Protocol: model.TCP, Asked: "TCP", Port: 80, Kinds: tcp, From: model.RoutesFromNone,
		},
		`{name: a, protocol: TCP, port: 80, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: a}}}}}`: {
			Name: "a", Protocol: model.TCP, Asked: "TCP", Port: 80, Kinds: tcp, From: model.RoutesFromSelector, Selector: team,
		},
		`{name: a, protocol: TCP, port: 80, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {"?": a}}}}}`: {
			Name: "a", Protocol: model.TCP, Asked: "TCP", Port: 80, Kinds: tcp, From: model.RoutesFromSelector, Selector: nobody(),
		},
		`{name: a, protocol: TCP, port: 80, allowedRoutes: {kinds: [{kind: TCPRoute}, {kind: HTTPRoute}]}}`: {
			Name: "a", Protocol: model.TCP, Asked: "TCP", Port: 80, Kinds: tcp, Others: true, From: model.RoutesFromSame,
		},
		`{name: a, protocol: TCP, port: 80, allowedRoutes: {kinds: [{kind: UDPRoute}]}}`: {
			Name: "a", Protocol: model.TCP, Asked: "TCP", Port: 80, Others: true, From: model.RoutesFromSame,
		},
		`{name: a, protocol: TCP, port: 80, allowedRoutes: {kinds: [{group: example.com, kind: TCPRoute}]}}`: {
			Name: "a", Protocol: model.TCP, Asked: "TCP", Port: 80, Others: true, From: model.RoutesFromSame,
		},
		`{name: a, protocol: HTTP, port: 80, allowedRoutes: {kinds: [{kind: HTTPRoute}]}}`: {
			Name: "a", Asked: "HTTP", Port: 80, Others: true, From: model.RoutesFromSame,
		},
	} {
		g := &gatewayv1.Gateway{Spec: gatewayv1.GatewaySpec{Listeners: []gatewayv1.Listener{*parsed[gatewayv1.Listener](t, manifest)}}}
		if diff := cmp.Diff([]model.Listener{want}, Gateway(g).Listeners); diff != "" {
			t.Errorf("%s (-want +got):\n%s", manifest, diff)
		}
	}
}

func TestAddressesOfAGateway(t *testing.T) {
	g := parsed[gatewayv1.Gateway](t, `
metadata: {name: front, namespace: shop, uid: u, generation: 3}
spec:
  gatewayClassName: atoll
  listeners: []
  infrastructure: {parametersRef: {group: example.com, kind: Params, name: p}}
  addresses:
  - {value: 198.18.0.9}
  - {type: IPAddress, value: "fd00::9"}
  - {type: IPAddress}
  - {type: Hostname, value: front.example.com}
  - {type: IPAddress, value: "::ffff:198.18.0.9"}
status:
  addresses: [{type: IPAddress, value: 198.18.0.1}, {type: Hostname, value: x}, {value: nonsense}]
`)
	got := Gateway(g)
	if got.Key.String() != "shop/front" || got.UID != "u" || got.Generation != 3 || got.Class != "atoll" || !got.Parameters {
		t.Errorf("%+v", got)
	}
	var said []string
	for _, a := range got.Addresses {
		if said = append(said, a.Addr.String()); a.Unsupported != "" {
			said[len(said)-1] = "no"
		}
	}
	if diff := cmp.Diff([]string{"198.18.0.9", "fd00::9", "invalid IP", "no", "no"}, said); diff != "" {
		t.Error(diff)
	}
	if len(got.Held) != 1 || got.Held[0] != netip.MustParseAddr("198.18.0.1") {
		t.Errorf("held %v", got.Held)
	}
	if c := GatewayClass(&gatewayv1.GatewayClass{Spec: gatewayv1.GatewayClassSpec{ControllerName: "example.com/x"}}, "v1.6.3"); c != nil {
		t.Errorf("another controller's class is ours: %+v", c)
	}
}

func TestRoutes(t *testing.T) {
	r := parsed[gatewayv1.UDPRoute](t, `
metadata: {name: dns, namespace: shop, uid: u, generation: 2}
spec:
  parentRefs:
  - {name: front}
  - {group: gateway.networking.k8s.io, kind: Gateway, name: front, namespace: edge, sectionName: udp, port: 53}
  - {group: "", kind: Service, name: mesh}
  - {group: gateway.networking.k8s.io, kind: ListenerSet, name: more}
  rules:
  - backendRefs:
    - {name: dns, port: 53}
    - {group: "", kind: Service, name: dns, namespace: kube-system, port: 53, weight: 0}
    - {group: example.com, kind: Bucket, name: b, weight: 7}
    - {kind: Pod, name: p}
`)
	want := &model.Route{
		Key: model.RouteKey{Kind: model.UDPRoute, Namespace: "shop", Name: "dns"}, UID: "u", Generation: 2,
		Parents: []model.ParentRef{
			{Gateway: model.GatewayKey{Namespace: "shop", Name: "front"}, Own: true},
			{Gateway: model.GatewayKey{Namespace: "edge", Name: "front"}, Section: "udp", Port: 53},
		},
		Backends: []model.RouteBackend{
			{Service: model.ServiceKey{Namespace: "shop", Name: "dns"}, Port: 53, Weight: 1},
			{Service: model.ServiceKey{Namespace: "kube-system", Name: "dns"}, Port: 53},
			{Kind: "Bucket.example.com", Service: model.ServiceKey{Namespace: "shop", Name: "b"}, Weight: 7},
			{Kind: "Pod", Service: model.ServiceKey{Namespace: "shop", Name: "p"}, Weight: 1},
		},
	}
	if diff := cmp.Diff(want, UDPRoute(r)); diff != "" {
		t.Error(diff)
	}
	tcp := &gatewayv1.TCPRoute{ObjectMeta: r.ObjectMeta, Spec: gatewayv1.TCPRouteSpec{CommonRouteSpec: r.Spec.CommonRouteSpec}}
	want.Key.Kind, want.Backends = model.TCPRoute, nil
	if diff := cmp.Diff(want, TCPRoute(tcp)); diff != "" {
		t.Error(diff)
	}
}

func TestGrants(t *testing.T) {
	for manifest, want := range map[string]*model.Grant{
		`{from: [{group: gateway.networking.k8s.io, kind: TCPRoute, namespace: a}], to: [{group: "", kind: Service}]}`: {
			From: []model.GrantFrom{{Kind: model.TCPRoute, Namespace: "a"}}, AllServices: true,
		},
		`{from: [{group: gateway.networking.k8s.io, kind: UDPRoute, namespace: a}, {group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: a}], to: [{group: "", kind: Service, name: x}, {group: "", kind: Secret}]}`: {
			From: []model.GrantFrom{{Kind: model.UDPRoute, Namespace: "a"}}, Services: []string{"x"},
		},
		`{from: [{group: example.com, kind: TCPRoute, namespace: a}], to: [{group: "", kind: Service}]}`:              nil,
		`{from: [{group: gateway.networking.k8s.io, kind: TCPRoute, namespace: a}], to: [{group: "", kind: Secret}]}`: nil,
	} {
		in := &gatewayv1.ReferenceGrant{Spec: *parsed[gatewayv1.ReferenceGrantSpec](t, manifest)}
		if diff := cmp.Diff(want, Grant(in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", manifest, diff)
		}
	}
}

func TestStatusOfAGateway(t *testing.T) {
	then, now := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	fine := model.Condition{Type: "Accepted", Status: true, Reason: "Accepted"}
	report := model.GatewayStatus{
		ObservedGeneration: 7, Addresses: []netip.Addr{netip.MustParseAddr("198.18.0.1")},
		Conditions: []model.Condition{fine},
		Listeners:  []model.ListenerStatus{{Name: "web", Conditions: []model.Condition{fine}}},
	}
	old := GatewayStatus(gatewayv1.GatewayStatus{Conditions: []metav1.Condition{{Type: "example.com/Their", Status: "True"}}}, report, then)
	got := GatewayStatus(old, report, now)
	if diff := cmp.Diff(old, got); diff != "" {
		t.Errorf("what stays as it is has changed:\n%s", diff)
	}
	if got.Conditions[0].Type != "example.com/Their" || got.Conditions[1].ObservedGeneration != 7 ||
		!got.Conditions[1].LastTransitionTime.Equal(&then) {
		t.Errorf("%+v", got.Conditions)
	}
	if got.Listeners[0].SupportedKinds == nil {
		t.Error("a listener without kinds has no list of them: that it has none would not be written")
	}
	report.Listeners[0].Conditions[0].Status = false
	got = GatewayStatus(old, report, now)
	if c := got.Listeners[0].Conditions[0]; c.Status != metav1.ConditionFalse || !c.LastTransitionTime.Equal(&now) {
		t.Errorf("%+v", c)
	}
}

func TestStatusOfARoute(t *testing.T) {
	now := metav1.NewTime(time.Unix(200, 0))
	theirs := gatewayv1.RouteParentStatus{ControllerName: "example.com/x", ParentRef: gatewayv1.ParentReference{Name: "front"}}
	gone := gatewayv1.RouteParentStatus{ControllerName: model.GatewayController, ParentRef: gatewayv1.ParentReference{Name: "gone"}}
	old := gatewayv1.RouteStatus{Parents: []gatewayv1.RouteParentStatus{gone, theirs}}
	report := model.RouteStatus{Parents: []model.ParentStatus{{
		Parent:     model.ParentRef{Gateway: model.GatewayKey{Namespace: "edge", Name: "front"}, Section: "web", Port: 80},
		Conditions: []model.Condition{{Type: "Accepted", Status: true, Reason: "Accepted"}},
	}}}
	got := RouteStatus(old, report, now)
	if len(got.Parents) != 2 || got.Parents[0].ControllerName != "example.com/x" {
		t.Fatalf("%+v", got.Parents)
	}
	ours := got.Parents[1].ParentRef
	if *ours.Group != gatewayv1.GroupName || *ours.Kind != "Gateway" || *ours.Namespace != "edge" || *ours.SectionName != "web" ||
		*ours.Port != 80 {
		t.Errorf("%+v", ours)
	}
	if empty := RouteStatus(old, model.RouteStatus{}, now); len(empty.Parents) != 1 || empty.Parents[0].ControllerName != "example.com/x" {
		t.Errorf("%+v", empty)
	}
}
