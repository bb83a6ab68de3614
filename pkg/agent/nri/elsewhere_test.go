package nri

import (
	"net/netip"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
)

func testElsewhere() Elsewhere {
	return Elsewhere{
		Resolver: netip.MustParseAddr("fdd7::35"), Resolvers: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		API: netip.MustParseAddr("10.96.0.1"),
	}
}

func TestResolvConf(t *testing.T) {
	for _, test := range []struct{ name, given, want string }{
		{
			"kubelet's", "search red.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n",
			"search red.svc.cluster.local svc.cluster.local cluster.local\nnameserver fdd7::35\noptions ndots:5\n",
		},
		{"both families", "nameserver 10.96.0.10\nnameserver fdd7::35\n", "nameserver fdd7::35\n"},
		{"the pod's own resolver", "nameserver 192.0.2.53\n", "nameserver 192.0.2.53\n"},
		{"beside its own", "nameserver 192.0.2.53\nnameserver 10.96.0.10\n", "nameserver 192.0.2.53\nnameserver fdd7::35\n"},
		{"a longer address", "nameserver 10.96.0.100\n", "nameserver 10.96.0.100\n"},
		{"no address", "nameserver\nnameserver x\n# nameserver 10.96.0.10 \n", "nameserver\nnameserver x\n# nameserver 10.96.0.10 \n"},
		{"no end of line", "nameserver 10.96.0.10", "nameserver fdd7::35\n"},
		{"none", "", ""},
	} {
		if got := testElsewhere().resolvConf(test.given); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestVariablesOfTheAPI(t *testing.T) {
	given := []string{
		"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443", "KUBERNETES_PORT=tcp://10.96.0.1:443",
		"KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1", "OTHER=10.96.0.1", "KUBERNETES_X=10.96.0.10",
	}
	want := []*api.KeyValue{
		{Key: "KUBERNETES_SERVICE_HOST", Value: "kubernetes.default.svc"},
		{Key: "KUBERNETES_PORT", Value: "tcp://kubernetes.default.svc:443"},
		{Key: "KUBERNETES_PORT_443_TCP_ADDR", Value: "kubernetes.default.svc"},
	}
	if diff := cmp.Diff(want, testElsewhere().environment(given), protocmp.Transform()); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if got := (Elsewhere{}).environment(given); got != nil {
		t.Errorf("nothing is elsewhere, and changed is %v", got)
	}
}

func TestRuntimesResolver(t *testing.T) {
	for source, want := range map[string]bool{
		"/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/abc/resolv.conf": true,
		"/var/lib/kubelet/pods/5d9c/volume-subpaths/dns/c/resolv.conf":            false,
		"/etc/other": false,
	} {
		mounts := []*api.Mount{{Source: "/x/resolv.conf", Destination: "/y"}, {Source: source, Destination: "/etc/resolv.conf"}}
		if _, got := runtimesResolver(mounts, "/var/lib/kubelet"); got != want {
			t.Errorf("%s: %v, want %v", source, got, want)
		}
	}
}
