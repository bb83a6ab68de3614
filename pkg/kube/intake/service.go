package intake

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// ManagedBy is the value of the label endpointslice.kubernetes.io/managed-by on slices of ours.
const ManagedBy = "atoll"

// Service reads a Service; nil when it has no virtual address: it is headless or an alias.
func Service(in *corev1.Service) *model.Service {
	if in.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	out := &model.Service{
		Key: model.ServiceKey{Namespace: in.Namespace, Name: in.Name}, UID: string(in.UID), Created: in.CreationTimestamp.Time,
		Selector: in.Spec.Selector,
		Assigned: ServiceAddresses(in.Annotations[model.AnnotationServiceAddresses], string(in.UID)),
	}
	var err error
	if out.Wanted, err = serviceIPs(in.Annotations[model.AnnotationServiceIPs]); err != nil {
		out.WantedError = bounded(err.Error())
	}
	for _, text := range in.Spec.ClusterIPs {
		if a, err := parseAddr(text); err == nil && !slices.ContainsFunc(out.ClusterIPs, func(o netip.Addr) bool { return o.Is4() == a.Is4() }) {
			out.ClusterIPs = append(out.ClusterIPs, a)
		}
	}
	if len(out.ClusterIPs) == 0 {
		return nil
	}
	for _, p := range in.Spec.Ports {
		protocol, known := protocols[p.Protocol]
		switch {
		case !known || !portOK(p.Port):
		case len(out.Ports) == model.MaxServicePorts:
			out.Beyond++
		default:
			out.Ports = append(out.Ports, model.ServicePort{Name: p.Name, Protocol: protocol, Port: uint16(p.Port)})
		}
	}
	_, out.OfAnotherProxy = in.Labels[labelProxy]
	out.Published = published(in, out.ClusterIPs)
	out.Local = ptr.Deref(in.Spec.InternalTrafficPolicy, "") == corev1.ServiceInternalTrafficPolicyLocal
	out.Prefers = preference(in)
	if in.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		out.Affinity = corev1.DefaultClientIPServiceAffinitySeconds
		if c := in.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
			out.Affinity = *c.ClientIP.TimeoutSeconds
		}
	}
	return out
}

// preference is which endpoints a Service's clients are to reach first: what has Kubernetes put hints into its slices.
func preference(in *corev1.Service) model.Preference {
	switch ptr.Deref(in.Spec.TrafficDistribution, "") {
	case corev1.ServiceTrafficDistributionPreferSameNode:
		return model.PrefersNode
	case corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferClose:
		return model.PrefersZone
	}
	for _, key := range []string{corev1.AnnotationTopologyMode, corev1.DeprecatedAnnotationTopologyAwareHints} {
		if strings.EqualFold(in.Annotations[key], "auto") {
			return model.PrefersZone
		}
	}
	return model.PrefersNone
}

// published are the addresses of a Service's load balancer that lead past it, straight to the endpoints, as kube-proxy has it: not
// those of one that is a proxy, and none where the Service says which clients may come. Nor those of an IP family that the Service,
// as its ClusterIPs tell, does not have.
func published(in *corev1.Service, cluster []netip.Addr) []netip.Addr {
	if in.Spec.Type != corev1.ServiceTypeLoadBalancer || len(in.Spec.LoadBalancerSourceRanges) > 0 {
		return nil
	}
	var out []netip.Addr
	for _, ingress := range in.Status.LoadBalancer.Ingress {
		if ptr.Deref(ingress.IPMode, corev1.LoadBalancerIPModeVIP) != corev1.LoadBalancerIPModeVIP {
			continue
		}
		a, err := parseAddr(ingress.IP)
		if err != nil || !a.IsGlobalUnicast() || slices.Contains(out, a) {
			continue
		}
		if slices.ContainsFunc(cluster, func(c netip.Addr) bool { return c.Is4() == a.Is4() }) {
			out = append(out, a)
		}
	}
	return out
}

// Slice reads an EndpointSlice; nil when it is of no Service, is one of ours, or holds names instead of addresses.
//
// Whoever may write slices in a namespace may write any pod's name into one: an endpoint that claims to be a pod of
// another namespace is left out.
func Slice(in *discoveryv1.EndpointSlice) *model.Slice {
	service := in.Labels[discoveryv1.LabelServiceName]
	if service == "" || in.Labels[discoveryv1.LabelManagedBy] == ManagedBy || in.AddressType == discoveryv1.AddressTypeFQDN {
		return nil
	}
	out := &model.Slice{
		Key: model.SliceKey{Namespace: in.Namespace, Name: in.Name}, UID: string(in.UID), Service: service,
	}
	for _, p := range in.Ports {
		protocol, known := protocols[ptr.Deref(p.Protocol, corev1.ProtocolTCP)]
		// Kubernetes lists them in the order of the Service's.
		if port := ptr.Deref(p.Port, 0); known && portOK(port) && len(out.Ports) < model.MaxServicePorts {
			out.Ports = append(out.Ports, model.SlicePort{Name: ptr.Deref(p.Name, ""), Protocol: protocol, Port: uint16(port)})
		}
	}
	for _, e := range in.Endpoints {
		if endpoint, ok := endpointOf(in.Namespace, e); ok {
			out.Endpoints = append(out.Endpoints, endpoint)
		}
	}
	return out
}

func endpointOf(namespace string, in discoveryv1.Endpoint) (model.Endpoint, bool) {
	if len(in.Addresses) == 0 {
		return model.Endpoint{}, false
	}
	// The API promises that all addresses of an endpoint can be used alike, and that the first will do.
	a, err := parseAddr(in.Addresses[0])
	if err != nil {
		return model.Endpoint{}, false
	}
	ready := ptr.Deref(in.Conditions.Ready, true)
	out := model.Endpoint{
		Address: a, Ready: ready,
		// A slice that says nothing of serving means the same as of ready.
		Serving:  ptr.Deref(in.Conditions.Serving, ready),
		Hostname: ptr.Deref(in.Hostname, ""), Node: ptr.Deref(in.NodeName, ""),
	}
	if hints := in.Hints; hints != nil {
		for _, zone := range hints.ForZones {
			out.ForZones = append(out.ForZones, zone.Name)
		}
		for _, node := range hints.ForNodes {
			out.ForNodes = append(out.ForNodes, node.Name)
		}
	}
	if ref := in.TargetRef; ref != nil && ref.Kind == "Pod" {
		if ref.Namespace != "" && ref.Namespace != namespace {
			return model.Endpoint{}, false
		}
		out.Pod, out.PodUID = model.PodKey{Namespace: namespace, Name: ref.Name}, string(ref.UID)
	}
	return out, true
}

// protocols are those that Services and policies know. No protocol means TCP.
var protocols = map[corev1.Protocol]model.Protocol{
	"": model.TCP, corev1.ProtocolTCP: model.TCP, corev1.ProtocolUDP: model.UDP, corev1.ProtocolSCTP: model.SCTP,
}

func portOK(p int32) bool { return p > 0 && p < 1<<16 }
