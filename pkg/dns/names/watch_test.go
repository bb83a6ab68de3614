package names

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

func TestServiceForDNS(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "uid-web"}
	own := &model.ServiceAddresses{
		ServiceUID: "uid-web", Network: "red", NetworkUID: "uid-red", Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.1")},
	}
	key := dns.ServiceKey{Namespace: "a", Name: "web"}
	for _, test := range []struct {
		what string
		spec corev1.ServiceSpec
		want dns.Service
	}{
		{
			"virtual addresses of both families",
			corev1.ServiceSpec{
				ClusterIP: "10.96.0.5", ClusterIPs: []string{"10.96.0.5", "fd00::5"}, Ports: []corev1.ServicePort{
					{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53}, {Port: 80},
				},
			},
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

// TestNetworkForDNS: of a Network's status is read since when it has each of its ranges, by which the controller and agents
// decide whose it is, and nothing that changes with pods.
func TestNetworkForDNS(t *testing.T) {
	read := askedFor(follow.Decoded(intake.Network, func(name string, err error) { t.Errorf("%s: %v", name, err) }))
	since := map[string]any{"cidr": "10.8.0.0/24", "since": "2026-01-02T03:04:05Z"}
	subnet := map[string]any{"name": "a", "cidr": "10.1.0.0/16", "gateway": "10.1.0.1", "used": int64(1), "free": int64(2)}
	for what, test := range map[string]struct {
		status any
		want   map[netip.Prefix]time.Time
	}{
		"none": {nil, nil},
		"of ranges": {
			map[string]any{"ranges": []any{since}, "subnets": []any{subnet}}, map[netip.Prefix]time.Time{
				netip.MustParsePrefix("10.8.0.0/24"): time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			},
		},
		"without it": {map[string]any{"subnets": []any{subnet}}, nil},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "red", "uid": "uid-red"}}}
		if test.status != nil {
			u.Object["status"] = test.status
		}
		got := read(u)
		if got == nil || len(got.Served) > 0 {
			t.Fatalf("status %s: %+v", what, got)
		}
		if !maps.EqualFunc(got.Since, test.want, time.Time.Equal) {
			t.Errorf("status %s: it has its ranges since %v, want %v", what, got.Since, test.want)
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
