package intake

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func TestWhichEndpointsClientsPrefer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		distribution, annotation, value string
		want                            model.Preference
	}{
		{want: model.PrefersNone},
		{distribution: corev1.ServiceTrafficDistributionPreferClose, want: model.PrefersZone},
		{distribution: corev1.ServiceTrafficDistributionPreferSameZone, want: model.PrefersZone},
		{distribution: corev1.ServiceTrafficDistributionPreferSameNode, want: model.PrefersNode},
		{distribution: "of another version", want: model.PrefersNone},
		{annotation: corev1.AnnotationTopologyMode, value: "Auto", want: model.PrefersZone},
		{annotation: corev1.DeprecatedAnnotationTopologyAwareHints, value: "auto", want: model.PrefersZone},
		{annotation: corev1.AnnotationTopologyMode, value: "Disabled", want: model.PrefersNone},
	} {
		in := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{test.annotation: test.value}},
			Spec:       corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1"}},
		}
		if test.distribution != "" {
			in.Spec.TrafficDistribution = &test.distribution
		}
		if got := Service(in); got.Prefers != test.want || got.Local {
			t.Errorf("%+v: prefers %q, local %t", test, got.Prefers, got.Local)
		}
	}
	in := &corev1.Service{
		Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1"}, InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyLocal)},
	}
	if got := Service(in); !got.Local {
		t.Error("internalTrafficPolicy Local is not read")
	}
	slice := Slice(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"100.64.0.1"}, NodeName: new("n1"), Hints: &discoveryv1.EndpointHints{
			ForZones: []discoveryv1.ForZone{{Name: "a"}, {Name: "b"}}, ForNodes: []discoveryv1.ForNode{{Name: "n1"}},
		}}},
	})
	if e := slice.Endpoints[0]; e.Node != "n1" || !slices.Equal(e.ForZones, []string{"a", "b"}) || !slices.Equal(e.ForNodes, []string{"n1"}) {
		t.Errorf("%+v", e)
	}
}
