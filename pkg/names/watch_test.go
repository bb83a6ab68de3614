package names

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/intake"
	"github.com/atoll-net/atoll/pkg/model"
)

func TestServiceForDNS(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "uid-web"}
	own := &model.ServiceAddresses{ServiceUID: "uid-web", Network: "red", NetworkUID: "uid-red", Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.1")}}
	key := dns.ServiceKey{Namespace: "a", Name: "web"}
	for _, test := range []struct {
		what string
		spec corev1.ServiceSpec
		want dns.Service
	}{
		{
			"virtual addresses of both families",
			corev1.ServiceSpec{ClusterIP: "10.96.0.5", ClusterIPs: []string{"10.96.0.5", "fd00::5"}, Ports: []corev1.ServicePort{{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53}, {Port: 80}}},
			dns.Service{
				ServiceKey: key, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.5"), netip.MustParseAddr("fd00::5")},
				Ports: []dns.Port{{Name: "dns", Protocol: "udp", Number: 53}, {Protocol: "tcp", Number: 80}},
			},
		},
		{
			"headless",
			corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}, PublishNotReadyAddresses: true},
			dns.Service{ServiceKey: key, Headless: true, PublishNotReady: true},
		},
		{
			"an alias",
			corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"},
			dns.Service{ServiceKey: key, ExternalName: "example.com"},
		},
		// It had an address before it became an alias: Kubernetes may leave it there for a moment.
		{
			"an alias with an address",
			corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com", ClusterIP: "None"},
			dns.Service{ServiceKey: key, ExternalName: "example.com"},
		},
		{"not allocated yet", corev1.ServiceSpec{}, dns.Service{ServiceKey: key}},
		{
			"addresses of its Network",
			corev1.ServiceSpec{ClusterIP: "10.96.0.5", ClusterIPs: []string{"10.96.0.5"}},
			dns.Service{ServiceKey: key, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.5")}, Own: own},
		},
	} {
		meta.Annotations = nil
		if test.want.Own != nil {
			meta.Annotations = map[string]string{model.AnnotationServiceAddresses: intake.ServiceAddressesAnnotation(*own)}
		}
		got := serviceForDNS(&corev1.Service{ObjectMeta: meta, Spec: test.spec})
		if diff := cmp.Diff(&test.want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.what, diff)
		}
	}
}

// TestSliceForDNS: what the controller writes is what the agent reads.
func TestSliceForDNS(t *testing.T) {
	written := intake.Mirror(model.Mirror{
		Network: "red", Source: model.SliceKey{Namespace: "a", Name: "web-x"}, SourceUID: "uid", Service: "web",
		Ports: []model.SlicePort{{Name: "http", Protocol: model.TCP, Port: 80}, {Name: "", Protocol: model.UDP, Port: 53}},
		Endpoints: []model.Endpoint{
			{Address: netip.MustParseAddr("fd00::5"), Ready: true, Serving: true, Hostname: "web-0"},
			{Address: netip.MustParseAddr("fd00::6")},
		},
		Faces: map[netip.Addr]netip.Addr{
			netip.MustParseAddr("fd00::5"): netip.MustParseAddr("fd64:a701::5"), netip.MustParseAddr("fd00::6"): netip.MustParseAddr("fd64:beef::6"),
		},
	})
	want := &dns.Slice{
		Service: dns.ServiceKey{Namespace: "a", Name: "web"}, Network: "red",
		Ports: []dns.Port{{Name: "http", Protocol: "tcp", Number: 80}, {Protocol: "udp", Number: 53}},
		Endpoints: []dns.Endpoint{
			{Address: netip.MustParseAddr("fd00::5"), Face: netip.MustParseAddr("fd64:a701::5"), Hostname: "web-0", Ready: true},
			{Address: netip.MustParseAddr("fd00::6")},
		},
	}
	ranges := []netip.Prefix{netip.MustParsePrefix("fd64:a701::/64")}
	if diff := cmp.Diff(want, sliceForDNS(written, ranges), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("slice (-want +got):\n%s", diff)
	}
	// What somebody else writes there does not have to make sense.
	sliceForDNS(&discoveryv1.EndpointSlice{
		Endpoints: []discoveryv1.Endpoint{{}, {Addresses: []string{"nonsense"}}}, Ports: []discoveryv1.EndpointPort{{}},
	}, ranges)
}
