package intake

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Bounds on what is read of one object of Gateway API; its own schemas have the same.
const (
	maxListeners = 64
	maxAddresses = 16
	maxParents   = 32
	maxBackends  = 16
)

// GatewayClass reads a GatewayClass; nil when it is for another controller. version is what the cluster has of the Gateway
// API.
func GatewayClass(in *gatewayv1.GatewayClass, version string) *model.GatewayClass {
	if in.Spec.ControllerName != model.GatewayController {
		return nil
	}
	return &model.GatewayClass{
		Name: in.Name, UID: string(in.UID), Generation: in.Generation,
		Parameters: in.Spec.ParametersRef != nil, Version: version,
	}
}

// Gateway reads a Gateway of any class.
func Gateway(in *gatewayv1.Gateway) *model.Gateway {
	out := &model.Gateway{
		Key: model.GatewayKey{Namespace: in.Namespace, Name: in.Name}, UID: string(in.UID), Generation: in.Generation,
		Created: in.CreationTimestamp.Time, Class: string(in.Spec.GatewayClassName),
		Parameters: in.Spec.Infrastructure != nil && in.Spec.Infrastructure.ParametersRef != nil,
	}
	for _, l := range first(in.Spec.Listeners, maxListeners) {
		out.Listeners = append(out.Listeners, listener(l))
	}
	for _, a := range first(in.Spec.Addresses, maxAddresses) {
		out.Addresses = append(out.Addresses, gatewayAddress(a))
	}
	for _, a := range first(in.Status.Addresses, maxAddresses) {
		if parsed, err := parseAddr(a.Value); err == nil && isIP(a.Type) {
			out.Held = append(out.Held, parsed)
		}
	}
	return out
}

func isIP(t *gatewayv1.AddressType) bool {
	return ptr.Deref(t, gatewayv1.IPAddressType) == gatewayv1.IPAddressType
}

func gatewayAddress(in gatewayv1.GatewaySpecAddress) model.GatewayAddress {
	if !isIP(in.Type) {
		return model.GatewayAddress{
			Unsupported: fmt.Sprintf("addresses of type %s are not served; ask for an IPAddress", quote(string(*in.Type))),
		}
	}
	if in.Value == "" {
		return model.GatewayAddress{}
	}
	a, err := parseAddr(in.Value)
	if err != nil {
		return model.GatewayAddress{Unsupported: err.Error()}
	}
	return model.GatewayAddress{Addr: a}
}

func listener(in gatewayv1.Listener) model.Listener {
	out := model.Listener{Name: string(in.Name), Asked: string(in.Protocol), From: model.RoutesFromSame}
	if portOK(in.Port) {
		out.Port = uint16(in.Port)
	}
	var kind model.RouteKind
	switch in.Protocol {
	case gatewayv1.TCPProtocolType:
		out.Protocol, kind = model.TCP, model.TCPRoute
	case gatewayv1.UDPProtocolType:
		out.Protocol, kind = model.UDP, model.UDPRoute
	}
	allowed := ptr.Deref(in.AllowedRoutes, gatewayv1.AllowedRoutes{})
	if len(allowed.Kinds) == 0 && kind != "" {
		out.Kinds = []model.RouteKind{kind}
	}
	for _, k := range allowed.Kinds {
		switch {
		case kind == "" || string(k.Kind) != string(kind) || ptr.Deref(k.Group, gatewayv1.GroupName) != gatewayv1.GroupName:
			out.Others = true
		case len(out.Kinds) == 0:
			out.Kinds = []model.RouteKind{kind}
		}
	}
	if from := allowed.Namespaces; from != nil {
		out.From, out.Selector = routesFrom(*from)
	}
	return out
}

// routesFrom reads from which namespaces routes may attach: what cannot be read is none.
func routesFrom(in gatewayv1.RouteNamespaces) (model.RoutesFrom, *match.Selector) {
	switch ptr.Deref(in.From, gatewayv1.NamespacesFromSame) {
	case gatewayv1.NamespacesFromSame:
		return model.RoutesFromSame, nil
	case gatewayv1.NamespacesFromAll:
		return model.RoutesFromAll, nil
	case gatewayv1.NamespacesFromSelector:
		if in.Selector != nil {
			return model.RoutesFromSelector, selector(in.Selector)
		}
	}
	return model.RoutesFromNone, nil
}

// TCPRoute reads a TCPRoute.
func TCPRoute(in *gatewayv1.TCPRoute) *model.Route {
	out := &model.Route{
		Key: model.RouteKey{Kind: model.TCPRoute, Namespace: in.Namespace, Name: in.Name}, UID: string(in.UID),
		Generation: in.Generation, Created: in.CreationTimestamp.Time, Parents: parents(in.Namespace, in.Spec.ParentRefs),
	}
	// The schema lets a route have one rule.
	for _, rule := range first(in.Spec.Rules, 1) {
		out.Backends = backends(in.Namespace, rule.BackendRefs)
	}
	return out
}

// UDPRoute reads a UDPRoute.
func UDPRoute(in *gatewayv1.UDPRoute) *model.Route {
	out := &model.Route{
		Key: model.RouteKey{Kind: model.UDPRoute, Namespace: in.Namespace, Name: in.Name}, UID: string(in.UID),
		Generation: in.Generation, Created: in.CreationTimestamp.Time, Parents: parents(in.Namespace, in.Spec.ParentRefs),
	}
	for _, rule := range first(in.Spec.Rules, 1) {
		out.Backends = backends(in.Namespace, rule.BackendRefs)
	}
	return out
}

func parents(namespace string, in []gatewayv1.ParentReference) []model.ParentRef {
	var out []model.ParentRef
	for _, p := range first(in, maxParents) {
		if ptr.Deref(p.Group, gatewayv1.GroupName) != gatewayv1.GroupName || ptr.Deref(p.Kind, gatewayKind) != gatewayKind {
			continue
		}
		ref := model.ParentRef{
			Gateway: model.GatewayKey{Namespace: string(ptr.Deref(p.Namespace, gatewayv1.Namespace(namespace))), Name: string(p.Name)},
			Own:     p.Namespace == nil,
			Section: string(ptr.Deref(p.SectionName, "")),
		}
		if port := ptr.Deref(p.Port, 0); portOK(port) {
			ref.Port = uint16(port)
		}
		out = append(out, ref)
	}
	return out
}

func backends(namespace string, in []gatewayv1.BackendRef) []model.RouteBackend {
	var out []model.RouteBackend
	for _, b := range first(in, maxBackends) {
		to := model.RouteBackend{
			Service: model.ServiceKey{Namespace: string(ptr.Deref(b.Namespace, gatewayv1.Namespace(namespace))), Name: string(b.Name)},
			Weight:  max(ptr.Deref(b.Weight, 1), 0),
		}
		group, kind := string(ptr.Deref(b.Group, "")), string(ptr.Deref(b.Kind, "Service"))
		if group != "" || kind != "Service" {
			to.Kind = kind
			if group != "" {
				to.Kind += "." + group
			}
		}
		if port := ptr.Deref(b.Port, 0); portOK(port) {
			to.Port = uint16(port)
		}
		out = append(out, to)
	}
	return out
}

// Grant reads a ReferenceGrant; nil when it lets no route refer to a Service.
func Grant(in *gatewayv1.ReferenceGrant) *model.Grant {
	out := &model.Grant{Key: model.GrantKey{Namespace: in.Namespace, Name: in.Name}}
	for _, f := range in.Spec.From {
		kind := model.RouteKind(f.Kind)
		if f.Group == gatewayv1.GroupName && (kind == model.TCPRoute || kind == model.UDPRoute) {
			out.From = append(out.From, model.GrantFrom{Kind: kind, Namespace: string(f.Namespace)})
		}
	}
	for _, t := range in.Spec.To {
		switch {
		case t.Group != "" || t.Kind != "Service":
		case ptr.Deref(t.Name, "") == "":
			out.AllServices = true
		default:
			out.Services = append(out.Services, string(*t.Name))
		}
	}
	if len(out.From) == 0 || !out.AllServices && len(out.Services) == 0 {
		return nil
	}
	return out
}

// first are the first n of a list.
func first[T any](list []T, n int) []T { return slices.Clip(list[:min(len(list), n)]) }
