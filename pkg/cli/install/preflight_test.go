package install

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// fakeCluster is a cluster with objects, in which the user may do what allowed says.
func fakeCluster(t *testing.T, server string, allowed func(verb, resource string) bool, objects ...runtime.Object) *Cluster {
	t.Helper()
	client := dynamicfake.NewSimpleDynamicClient(scheme.Scheme, objects...)
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		o := action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
		attributes, _, err := unstructured.NestedStringMap(o.Object, "spec", "resourceAttributes")
		if err != nil {
			return true, nil, err
		}
		return true, o, unstructured.SetNestedField(o.Object, allowed(attributes["verb"], attributes["resource"]), "status", "allowed")
	})
	kind := func(name, kind string, namespaced bool) metav1.APIResource {
		return metav1.APIResource{Name: name, Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"get", "list", "create"}}
	}
	found := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{}, FakedServerVersion: &version.Info{GitVersion: server}}
	found.Resources = []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{kind("nodes", "Node", false), kind("services", "Service", true)}},
		{GroupVersion: "discovery.k8s.io/v1", APIResources: []metav1.APIResource{kind("endpointslices", "EndpointSlice", true)}},
		{
			GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
				kind("daemonsets", "DaemonSet", true), kind("deployments", "Deployment", true),
			},
		},
		{GroupVersion: "networking.k8s.io/v1", APIResources: []metav1.APIResource{kind("servicecidrs", "ServiceCIDR", false)}},
		{
			GroupVersion: "authorization.k8s.io/v1", APIResources: []metav1.APIResource{
				kind("selfsubjectaccessreviews", "SelfSubjectAccessReview", false),
			},
		},
		{
			GroupVersion: "admissionregistration.k8s.io/v1", APIResources: []metav1.APIResource{
				kind("validatingadmissionpolicies", "ValidatingAdmissionPolicy", false),
			},
		},
	}
	return NewCluster(client, found)
}

// TestPreflightReadsTheCluster: what is asked of the API server reaches the checks, and values that nobody set come from it.
func TestPreflightReadsTheCluster(t *testing.T) {
	t.Parallel()
	nodeObject := func(name, address string) *unstructured.Unstructured {
		o := object("v1", "Node", "", name, map[string]string{controlPlaneLabel: ""})
		o.Object["status"] = map[string]any{
			"addresses": []any{map[string]any{"type": "InternalIP", "address": address}},
			"nodeInfo":  map[string]any{"operatingSystem": "linux", "architecture": "amd64", "containerRuntimeVersion": "containerd://2.4.0"},
		}
		return o
	}
	services := object("networking.k8s.io/v1", "ServiceCIDR", "", "kubernetes", nil)
	services.Object["spec"] = map[string]any{"cidrs": []any{"10.112.0.0/16"}}
	names := object("v1", "Service", "kube-system", "kube-dns", nil)
	names.Object["spec"] = map[string]any{"clusterIPs": []any{"10.112.0.10"}}
	api := object("discovery.k8s.io/v1", "EndpointSlice", "default",
		"kubernetes", map[string]string{discoveryv1.LabelServiceName: "kubernetes"})
	api.Object["endpoints"] = []any{map[string]any{"addresses": []any{"198.51.100.9"}}}
	another := object("discovery.k8s.io/v1", "EndpointSlice", "default", "web", map[string]string{discoveryv1.LabelServiceName: "web"})
	another.Object["endpoints"] = []any{map[string]any{"addresses": []any{"203.0.113.9"}}}
	there := []runtime.Object{
		nodeObject("a", "192.0.2.1"), nodeObject("b", "192.0.2.2"), nodeObject("c", "192.0.2.3"), services, names, api, another,
	}
	options := Options{Source: Source{Overlay: "ha"}, Values: Values{Tag: "v0.3.0"}}

	all := func(string, string) bool { return true }
	check := func(c *Cluster) map[string]Verdict {
		t.Helper()
		plan, err := Prepare(t.Context(), c, options)
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.ranges.services; len(got) != 1 || got[0].String() != "10.112.0.0/16" {
			t.Errorf("Services' ranges %v", got)
		}
		if got := plan.ranges.dns; len(got) != 1 || got[0].String() != "10.112.0.10" {
			t.Errorf("DNS addresses %v", got)
		}
		if got := plan.ranges.nodes; len(got) != 2 || got[0].String() != "192.0.2.0/24" || got[1].String() != "198.51.100.0/24" {
			t.Errorf("nodes' ranges %v", got)
		}
		checks, err := Preflight(t.Context(), c, plan)
		if err != nil {
			t.Fatal(err)
		}
		refused := map[string]Verdict{}
		for _, one := range checks {
			if one.Verdict != OK {
				refused[one.Name] = one.Verdict
			}
		}
		return refused
	}
	if got := check(fakeCluster(t, "v1.36.0", all, there...)); len(got) > 0 {
		t.Errorf("a good cluster: %v", got)
	}

	other := object("apps/v1", "DaemonSet", "kube-flannel", "kube-flannel-ds", nil)
	older := object("apps/v1", "Deployment", system, controllerName, map[string]string{versionLabel: "v0.2.0"})
	mayNotBind := func(verb, resource string) bool { return verb != "*" && verb != "bind" && resource != "namespaces" }
	got := check(fakeCluster(t, "v1.30.1", mayNotBind, append(there, other, older)...))
	for _, name := range []string{"Kubernetes", "your rights", "other network plugins", CheckInstalled} {
		if got[name] != Refuse {
			t.Errorf("%s: %q, want it refused", name, got[name])
		}
	}
	if len(got) != 4 {
		t.Errorf("got %v", got)
	}
}

// TestNodesRangesHoldThoseThatComeLater: ranges are those of subnets, and no more than an AtollConfig has.
func TestNodesRangesHoldThoseThatComeLater(t *testing.T) {
	t.Parallel()
	var many []netip.Addr
	for i := range 200 {
		many = append(many, netip.AddrFrom4([4]byte{10, 1, byte(i), 7}), netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::7", i)))
	}
	for _, test := range []struct {
		addresses []netip.Addr
		want      string
	}{
		{nil, "[]"},
		{
			[]netip.Addr{
				netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::9"), netip.MustParseAddr("192.0.2.200"),
				netip.MustParseAddr("::ffff:10.0.0.1"),
			}, "[10.0.0.0/24 192.0.2.0/24 2001:db8::/64]",
		},
	} {
		if got := fmt.Sprint(around(test.addresses)); got != test.want {
			t.Errorf("around %v: %s, want %s", test.addresses, got, test.want)
		}
	}
	ranges := around(many)
	if len(ranges) > 2*mostNodeRanges {
		t.Errorf("%d ranges", len(ranges))
	}
	for _, a := range many {
		if !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) }) {
			t.Errorf("%s is in none of %v", a, ranges)
		}
	}
}
