//go:build integration

package api

import (
	"context"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/test/apiserver"
)

// testMirrors: whoever may write EndpointSlices may write all but mirrors.
func testMirrors(t *testing.T, s *apiserver.Server) {
	const notYours = "written by atoll-controller only"
	grant(t, clientFor(t, s.RESTConfig()), "slices", "slicers", rbacv1.PolicyRule{
		APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"*"},
	})
	tenant := clientFor(t, s.As("tenant", "slicers"))
	controller := clientFor(t, s.As("system:serviceaccount:atoll-system:atoll-controller"))
	create := func(ctx context.Context, client kubernetes.Interface, name, manager string, o metav1.CreateOptions) error {
		_, err := client.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{discoveryv1.LabelManagedBy: manager, "service.kubernetes.io/service-proxy-name": manager},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
		}, o)
		return err
	}
	label := func(client kubernetes.Interface, name, value string) error {
		_, err := client.DiscoveryV1().EndpointSlices("default").Patch(t.Context(), name, types.MergePatchType,
			merge("labels", discoveryv1.LabelManagedBy, value), metav1.PatchOptions{})
		return err
	}
	waitForPolicies(t, func(ctx context.Context) error {
		return create(ctx, tenant, "early", "atoll", metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	})
	for _, step := range []struct {
		what, refusal string
		do            func() error
	}{
		{"a tenant makes a mirror", notYours, func() error { return create(t.Context(), tenant, "forged", "atoll", metav1.CreateOptions{}) }},
		{"a tenant makes another slice", "", func() error { return create(t.Context(), tenant, "own", "me", metav1.CreateOptions{}) }},
		{"a tenant makes a mirror of it", notYours, func() error { return label(tenant, "own", "atoll") }},
		{"a tenant changes it", "", func() error { return label(tenant, "own", "null") }},
		{"the controller makes a mirror", "", func() error { return create(t.Context(), controller, "mirror", "atoll", metav1.CreateOptions{}) }},
		{"a tenant takes it over", notYours, func() error { return label(tenant, "mirror", "me") }},
		{"a tenant changes it", notYours, func() error {
			_, err := tenant.DiscoveryV1().EndpointSlices("default").Patch(t.Context(), "mirror", types.MergePatchType,
				[]byte(`{"endpoints":[{"addresses":["10.0.0.1"]}]}`), metav1.PatchOptions{})
			return err
		}},
		{"a tenant writes faces on it", notYours, func() error {
			_, err := tenant.DiscoveryV1().EndpointSlices("default").Patch(t.Context(), "mirror", types.MergePatchType,
				merge("annotations", "atoll.dev/faces", "x"), metav1.PatchOptions{})
			return err
		}},
		{"a tenant deletes it", "", func() error {
			return tenant.DiscoveryV1().EndpointSlices("default").Delete(t.Context(), "mirror", metav1.DeleteOptions{})
		}},
	} {
		switch err := step.do(); {
		case step.refusal == "" && err != nil:
			t.Errorf("%s: %v", step.what, err)
		case step.refusal != "" && (err == nil || !strings.Contains(err.Error(), step.refusal)):
			t.Errorf("%s: %v; want a refusal that says %q", step.what, err, step.refusal)
		}
	}
}
