package intake

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// labelProxy on a Service or a slice says that another proxy than kube-proxy looks after it.
const labelProxy = "service.kubernetes.io/service-proxy-name"

// MirrorKey names the EndpointSlice of a Mirror: the same one each time for a slice and a Network.
func MirrorKey(m model.Mirror) model.SliceKey {
	const digits, most = 10, 253
	sum := sha256.Sum256([]byte(m.SourceUID + "/" + m.Network))
	name := m.Source.Name
	if len(name) > most-digits-1 {
		name = strings.TrimRight(name[:most-digits-1], "-.")
	}
	return model.SliceKey{Namespace: m.Source.Namespace, Name: name + "-" + hex.EncodeToString(sum[:])[:digits]}
}

// Mirror is the EndpointSlice of a Mirror. It goes when the slice that it mirrors goes.
//
// Its addresses mean something in one Network only. So it has no label of a Service; it is marked as one of a headless
// Service, which keeps kube-proxy from asking for it at all; and none of its endpoints is ready (see MirrorReady).
func Mirror(m model.Mirror) *discoveryv1.EndpointSlice {
	key := MirrorKey(m)
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels: map[string]string{
				discoveryv1.LabelManagedBy: ManagedBy,
				model.LabelNetwork:         m.Network,
				model.LabelService:         m.Service,
				labelProxy:                 ManagedBy,
				corev1.IsHeadlessService:   "",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice", Name: m.Source.Name, UID: types.UID(m.SourceUID),
			}},
		},
		AddressType: discoveryv1.AddressTypeIPv6,
	}
	if text := facesAnnotation(m.Faces); text != "" {
		out.Annotations = map[string]string{model.AnnotationFaces: text}
	}
	for _, p := range m.Ports {
		protocol := corev1.Protocol(strings.ToUpper(string(p.Protocol)))
		out.Ports = append(out.Ports, discoveryv1.EndpointPort{Name: new(p.Name), Protocol: &protocol, Port: new(int32(p.Port))})
	}
	for _, e := range m.Endpoints {
		if e.Address.Is4() {
			out.AddressType = discoveryv1.AddressTypeIPv4
		}
		out.Endpoints = append(out.Endpoints, mirroredEndpoint(e))
	}
	return out
}

func mirroredEndpoint(e model.Endpoint) discoveryv1.Endpoint {
	ready, serving, terminating := false, e.Ready || e.Serving, e.Serving && !e.Ready
	out := discoveryv1.Endpoint{
		Addresses:  []string{e.Address.String()},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
	}
	if e.Hostname != "" {
		out.Hostname = &e.Hostname
	}
	if e.Node != "" {
		out.NodeName = &e.Node
	}
	if e.Pod.Name != "" {
		out.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: types.UID(e.PodUID)}
	}
	return out
}

// facesAnnotation is the text of AnnotationFaces, sorted; empty when there are none.
func facesAnnotation(faces map[netip.Addr]netip.Addr) string {
	if len(faces) == 0 {
		return ""
	}
	return jsonOf(faces)
}

// Faces reads AnnotationFaces: the faces that are of the ranges, by own addresses of the same IP family. What cannot be read counts for
// nothing.
func Faces(text string, ranges []netip.Prefix) map[netip.Addr]netip.Addr {
	if text == "" {
		return nil
	}
	var out map[netip.Addr]netip.Addr
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil
	}
	maps.DeleteFunc(out, func(own, face netip.Addr) bool {
		return own.Is4() != face.Is4() || !slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(face) })
	})
	return out
}

// MirrorReady reports whether an endpoint of a mirror is ready in its Network: it serves and does not end. The condition
// "ready" is always false: it is what readers of all slices go by, and none of them knows the Network. CoreDNS, for one,
// takes ready addresses for reverse names, whatever Service they are of, and would mix up two Networks' pods.
func MirrorReady(c discoveryv1.EndpointConditions) bool {
	return ptr.Deref(c.Serving, false) && !ptr.Deref(c.Terminating, false)
}
