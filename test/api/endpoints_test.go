//go:build integration

package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/wait"
)

// sliceOf asks the server what it says to a slice with an address.
func sliceOf(ctx context.Context, client kubernetes.Interface, namespace, address string) error {
	family := discoveryv1.AddressTypeIPv4
	switch {
	case strings.Contains(address, ":"):
		family = discoveryv1.AddressTypeIPv6
	case strings.HasSuffix(address, ".example"):
		family = discoveryv1.AddressTypeFQDN
	}
	endpoints := []discoveryv1.Endpoint{{Addresses: []string{address}}}
	if family == discoveryv1.AddressTypeIPv4 {
		endpoints = append([]discoveryv1.Endpoint{{Addresses: []string{"192.0.2.77"}}}, endpoints...)
	}
	_, err := client.DiscoveryV1().EndpointSlices(namespace).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, AddressType: family, Endpoints: endpoints,
	}, dry)
	return err
}

// endpointsOf is sliceOf for Endpoints, of which Kubernetes makes slices.
//
//nolint:staticcheck // They are deprecated, and read as before.
func endpointsOf(ctx context.Context, client kubernetes.Interface, namespace, address string, ready bool) error {
	addresses := []corev1.EndpointAddress{{IP: address}}
	subset := corev1.EndpointSubset{Addresses: addresses}
	if !ready {
		subset = corev1.EndpointSubset{NotReadyAddresses: addresses}
	}
	_, err := client.CoreV1().Endpoints(namespace).Create(ctx, &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, Subsets: []corev1.EndpointSubset{subset},
	}, dry)
	return err
}

// testEndpoints: which addresses come into slices and Endpoints, and by whom.
func testEndpoints(t *testing.T, s *apiserver.Server) {
	const refused = "come into EndpointSlices and Endpoints by a Service's selector"
	admin := clientFor(t, s.RESTConfig())
	makeNamespace(t, admin, "eps", map[string]string{"atoll.dev/network": "red"}, nil)
	makeNamespace(t, admin, "eps-infra", map[string]string{"atoll.dev/infrastructure": "true"}, nil)
	grant(t, admin, "atoll-endpoint-writer", "operators")
	tenant, operator := clientFor(t, s.As("tenant", "endpointers")), clientFor(t, s.As("operator", "endpointers", "operators"))
	kubernetesOwn := clientFor(t, s.As("system:serviceaccount:kube-system:endpointslice-controller", "endpointers"))
	for _, address := range []string{"100.64.1.5", inInfra, inClosed} {
		waitForPolicies(t, func(ctx context.Context) error { return sliceOf(ctx, tenant, "eps", address) })
	}
	for _, test := range []struct {
		address string
		bad     bool
	}{
		{"100.64.1.5", true}, // a face
		{"fd64:a701::1:5", true},
		{"172.30.0.11", true}, // a node
		{"172.31.0.11", true}, // its tunnels
		{inInfra, true},
		{inClosed, true},
		{"10.96.0.10", true}, // a Service
		{"10.244.0.9", true}, // a pod of the default Network
		{"192.0.2.9", false}, // somebody outside
		{"2001:db8::9", false},
	} {
		for who, try := range map[string]func(kubernetes.Interface, string) error{
			"a slice": func(c kubernetes.Interface, ns string) error { return sliceOf(t.Context(), c, ns, test.address) },
			"Endpoints": func(c kubernetes.Interface, ns string) error {
				return endpointsOf(t.Context(), c, ns, test.address, true)
			},
			"Endpoints that are not ready": func(c kubernetes.Interface, ns string) error {
				return endpointsOf(t.Context(), c, ns, test.address, false)
			},
		} {
			if err := try(tenant, "eps"); test.bad && (err == nil || !strings.Contains(err.Error(), refused)) || !test.bad && err != nil {
				t.Errorf("a tenant writes %s with %s: %v; refused: %t", who, test.address, err, test.bad)
			}
			for name, client := range map[string]kubernetes.Interface{
				"an operator": operator, "Kubernetes' controller": kubernetesOwn, "who owns the cluster": admin,
			} {
				if err := try(client, "eps"); err != nil {
					t.Errorf("%s writes %s with %s: %v", name, who, test.address, err)
				}
			}
			if err := try(tenant, "eps-infra"); err != nil {
				t.Errorf("infrastructure writes %s with %s: %v", who, test.address, err)
			}
		}
	}
	if err := sliceOf(t.Context(), tenant, "eps", "db.example"); err != nil {
		t.Errorf("a slice with a name: %v", err)
	}
	testChangedSlice(t, admin, tenant, refused)
	testLargeSlice(t, tenant)
	err := without(t, admin, func(ctx context.Context) error {
		return errors.Join(sliceOf(ctx, tenant, "eps", "100.64.1.5"), sliceOf(ctx, tenant, "eps", inInfra), sliceOf(ctx, tenant, "eps", inClosed))
	}, "atoll-endpoint-addresses")
	if err != nil {
		t.Errorf("the control: without the policy a tenant writes slices with a face and with closed addresses: %v", err)
	}
}

// testSlicesWhereNodesAreUnknown: with the settings that are shipped nobody knows which addresses are nodes', and so a tenant
// writes none; of each IP family anew.
func testSlicesWhereNodesAreUnknown(t *testing.T, s *apiserver.Server) {
	const refused = "by a Service's selector, until its AtollConfig has the nodes' ranges of that IP family"
	admin := clientFor(t, s.RESTConfig())
	grant(t, admin, "writes-endpoints", "endpointers",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"endpoints", "endpoints/restricted"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{
			APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices", "endpointslices/restricted"}, Verbs: []string{"*"},
		})
	tenant := clientFor(t, s.As("tenant", "endpointers"))
	waitForPolicies(t, func(ctx context.Context) error { return sliceOf(ctx, tenant, "default", "172.30.0.11") })
	for _, address := range []string{"172.30.0.11", "192.0.2.9", "2001:db8::9"} {
		expect(t, sliceOf(t.Context(), tenant, "default", address), refused)
		expect(t, endpointsOf(t.Context(), tenant, "default", address, true), refused)
		expect(t, sliceOf(t.Context(), admin, "default", address), "")
	}
	expect(t, sliceOf(t.Context(), tenant, "default", "db.example"), "")
	if _, err := s.Kubectl(t.Context(), "apply", "--server-side", "-f", "testdata/ipv4-nodes.yaml"); err != nil {
		t.Fatal(err)
	}
	wait.Eventually(t, wait.Patience, "slices with addresses outside are written", func(ctx context.Context) error {
		return sliceOf(ctx, tenant, "default", "192.0.2.9")
	})
	expect(t, sliceOf(t.Context(), tenant, "default", "172.30.0.11"), "come into EndpointSlices and Endpoints by a Service's selector")
	expect(t, sliceOf(t.Context(), tenant, "default", "2001:db8::9"), refused)
}

// testLargeSlice: a slice with as many endpoints as there may be is not too much for the policy.
func testLargeSlice(t *testing.T, tenant kubernetes.Interface) {
	large := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "large"}, AddressType: discoveryv1.AddressTypeIPv4}
	for i := range 1000 {
		large.Endpoints = append(large.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("11.0.%d.%d", i/250, i%250+1)}})
	}
	made, err := tenant.DiscoveryV1().EndpointSlices("eps").Create(t.Context(), large, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Endpoints[7].Addresses = []string{"11.1.0.1"}
	_, err = tenant.DiscoveryV1().EndpointSlices("eps").Update(t.Context(), made, metav1.UpdateOptions{DryRun: dry.DryRun})
	expect(t, err, "")
}

// testChangedSlice: in a slice that Kubernetes created, a tenant may change anything but the addresses.
func testChangedSlice(t *testing.T, admin, tenant kubernetes.Interface, refused string) {
	_, err := admin.DiscoveryV1().EndpointSlices("eps").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "made"}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"100.64.1.5"}}, {Addresses: []string{"100.64.1.6"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(body string) error {
		_, err := tenant.DiscoveryV1().EndpointSlices("eps").Patch(t.Context(), "made", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	if err := patch(`{"metadata":{"annotations":{"note":"mine"}}}`); err != nil {
		t.Errorf("an annotation: %v", err)
	}
	if err := patch(`{"endpoints":[{"addresses":["100.64.1.6"]}]}`); err != nil {
		t.Errorf("an endpoint less: %v", err)
	}
	if err := patch(`{"endpoints":[{"addresses":["100.64.9.9"]}]}`); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("another face: %v; want a refusal", err)
	}
}
