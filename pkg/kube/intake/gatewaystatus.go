package intake

import (
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// gatewayKind is the kind of a Gateway.
const gatewayKind = "Gateway"

// The functions of this file give the status to show for what the controller reports. They keep what others have
// written there, and the times of conditions that stay as they are; they share nothing with old.

// GatewayClassStatus is that of a GatewayClass.
func GatewayClassStatus(old gatewayv1.GatewayClassStatus, report model.GatewayClassStatus, now metav1.Time) gatewayv1.GatewayClassStatus {
	out := gatewayv1.GatewayClassStatus{Conditions: merged(old.Conditions, report.Conditions, report.ObservedGeneration, now)}
	for _, f := range report.Features {
		out.SupportedFeatures = append(out.SupportedFeatures, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(f)})
	}
	return out
}

// GatewayStatus is that of a Gateway.
func GatewayStatus(old gatewayv1.GatewayStatus, report model.GatewayStatus, now metav1.Time) gatewayv1.GatewayStatus {
	out := gatewayv1.GatewayStatus{
		Addresses:            statusAddresses(report.Addresses),
		Conditions:           merged(old.Conditions, report.Conditions, report.ObservedGeneration, now),
		AttachedListenerSets: old.AttachedListenerSets,
	}
	for _, l := range report.Listeners {
		var before []metav1.Condition
		for _, o := range old.Listeners {
			if string(o.Name) == l.Name {
				before = o.Conditions
			}
		}
		status := gatewayv1.ListenerStatus{
			Name: gatewayv1.SectionName(l.Name), AttachedRoutes: l.Attached,
			// An empty list is written too.
			SupportedKinds: []gatewayv1.RouteGroupKind{},
			Conditions:     merged(before, l.Conditions, report.ObservedGeneration, now),
		}
		for _, k := range l.Kinds {
			status.SupportedKinds = append(status.SupportedKinds, gatewayv1.RouteGroupKind{
				Group: new(gatewayv1.Group(gatewayv1.GroupName)), Kind: gatewayv1.Kind(k),
			})
		}
		out.Listeners = append(out.Listeners, status)
	}
	return out
}

func statusAddresses(list []netip.Addr) []gatewayv1.GatewayStatusAddress {
	var out []gatewayv1.GatewayStatusAddress
	for _, a := range list {
		out = append(out, gatewayv1.GatewayStatusAddress{Type: new(gatewayv1.IPAddressType), Value: a.String()})
	}
	return out
}

// RouteStatus is that of a route. Parents of other controllers stay; ours are those that are reported.
func RouteStatus(old gatewayv1.RouteStatus, report model.RouteStatus, now metav1.Time) gatewayv1.RouteStatus {
	out := gatewayv1.RouteStatus{Parents: []gatewayv1.RouteParentStatus{}}
	for _, p := range old.Parents {
		if p.ControllerName != model.GatewayController {
			out.Parents = append(out.Parents, *p.DeepCopy())
		}
	}
	for _, p := range report.Parents {
		ref := parentReference(p.Parent)
		var before []metav1.Condition
		for _, o := range old.Parents {
			if o.ControllerName == model.GatewayController && sameParent(o.ParentRef, ref) {
				before = o.Conditions
			}
		}
		out.Parents = append(out.Parents, gatewayv1.RouteParentStatus{
			ParentRef: ref, ControllerName: model.GatewayController,
			Conditions: merged(before, p.Conditions, report.ObservedGeneration, now),
		})
	}
	// The schema takes no more.
	out.Parents = first(out.Parents, maxParents)
	return out
}

func parentReference(p model.ParentRef) gatewayv1.ParentReference {
	out := gatewayv1.ParentReference{
		Group: new(gatewayv1.Group(gatewayv1.GroupName)), Kind: new(gatewayv1.Kind(gatewayKind)), Name: gatewayv1.ObjectName(p.Gateway.Name),
	}
	if !p.Own {
		out.Namespace = new(gatewayv1.Namespace(p.Gateway.Namespace))
	}
	if p.Section != "" {
		out.SectionName = new(gatewayv1.SectionName(p.Section))
	}
	if p.Port != 0 {
		out.Port = new(gatewayv1.PortNumber(p.Port))
	}
	return out
}

func sameParent(a, b gatewayv1.ParentReference) bool {
	return a.Name == b.Name && ptr.Equal(a.Namespace, b.Namespace) && ptr.Equal(a.SectionName, b.SectionName) && ptr.Equal(a.Port, b.Port)
}

// merged are the conditions that are reported, in the place of those of the same type, and the others as they were.
func merged(old []metav1.Condition, report []model.Condition, generation int64, now metav1.Time) []metav1.Condition {
	out := slices.Clone(old)
	for _, c := range report {
		made := condition(old, c, generation, now)
		if at := slices.IndexFunc(out, func(o metav1.Condition) bool { return o.Type == c.Type }); at >= 0 {
			out[at] = made
		} else {
			out = append(out, made)
		}
	}
	return out
}
