//go:build integration

package api

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/test/apiserver"
)

// testServices: whoever may write Services may write all of them but the addresses that the controller gave. testPods has
// made the namespace, and who may write.
func testServices(t *testing.T, s *apiserver.Server) {
	const (
		addresses = "atoll.dev/service-addresses"
		written   = "is written by atoll-controller only"
	)
	tenant := clientFor(t, s.As("tenant", core))
	owner := clientFor(t, s.As(controller, "system:serviceaccounts", "system:serviceaccounts:atoll-system"))
	create := func(name string, annotations map[string]string) error {
		_, err := tenant.CoreV1().Services("team").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		return err
	}
	try := func(ctx context.Context, client kubernetes.Interface, body []byte, o metav1.PatchOptions, subresources ...string) error {
		_, err := client.CoreV1().Services("team").Patch(ctx, "web", types.MergePatchType, body, o, subresources...)
		return err
	}
	patch := func(client kubernetes.Interface, body []byte, subresources ...string) error {
		return try(t.Context(), client, body, metav1.PatchOptions{}, subresources...)
	}
	if err := create("web", nil); err != nil {
		t.Fatal(err)
	}
	waitForPolicies(t, func(ctx context.Context) error {
		return try(ctx, tenant, merge("annotations", addresses, "x"), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	})
	for _, step := range []struct {
		what, refusal string
		do            func() error
	}{
		{"a tenant makes a Service with another's addresses", "", func() error { return create("copy", map[string]string{addresses: "x"}) }},
		{"a tenant asks for an address", "", func() error { return patch(tenant, merge("annotations", "atoll.dev/service-ips", "10.9.0.5")) }},
		{"a tenant writes addresses", written, func() error { return patch(tenant, merge("annotations", addresses, "x")) }},
		{
			"a tenant writes addresses through the status", written,
			func() error { return patch(tenant, merge("annotations", addresses, "x"), "status") },
		},
		{"the controller writes addresses", "", func() error { return patch(owner, merge("annotations", addresses, "x")) }},
		{"the controller writes something else", "", func() error { return patch(owner, merge("annotations", addresses, "y")) }},
		{"a tenant changes them", written, func() error { return patch(tenant, merge("annotations", addresses, "x")) }},
		{"a tenant changes them to nothing", written, func() error { return patch(tenant, merge("annotations", addresses, "")) }},
		{"a tenant changes something else", "", func() error {
			return patch(tenant, []byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"sessionAffinity":"ClientIP"}}`))
		}},
		{"a tenant removes them", "", func() error { return patch(tenant, merge("annotations", addresses, "null")) }},
		{"the controller removes them", "", func() error { return patch(owner, merge("annotations", addresses, "null")) }},
		{"a tenant deletes the Service", "", func() error {
			return tenant.CoreV1().Services("team").Delete(t.Context(), "web", metav1.DeleteOptions{})
		}},
	} {
		t.Run(step.what, func(t *testing.T) { expect(t, step.do(), step.refusal) })
	}
}
