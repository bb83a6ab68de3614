//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// boundNamespace gives a namespace the quota of docs/examples, with 2 of each kind, and waits until it counts the kinds.
func boundNamespace(t *testing.T, namespace string, kinds ...corev1.ResourceName) {
	t.Helper()
	quota := regexp.MustCompile(`"\d+"`).ReplaceAllString(manifest(t, "quota.yaml"), `"2"`)
	apply := env.Program(t.Context(), "kubectl", "apply", "-n", namespace, "-f", "-")
	apply.Stdin = strings.NewReader(quota)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("apply quota: %v\n%s", err, out)
	}
	cluster.Eventually(t, cluster.Patience, "the quota of "+namespace+" counts", func(ctx context.Context) error {
		counted, err := env.Clients.Kube.CoreV1().ResourceQuotas(namespace).Get(ctx, "atoll", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, kind := range kinds {
			if _, ok := counted.Status.Used["count/"+kind]; !ok {
				return fmt.Errorf("it does not count %s: %v", kind, counted.Status.Used)
			}
		}
		return nil
	})
}

// TestAQuotaOfANamespace: what has no quota of the Tenant is bounded by Kubernetes' quota of the namespace, as the example has it.
func TestAQuotaOfANamespace(t *testing.T) {
	t.Parallel()
	const ns = "bounded"
	env.Namespace(t, ns, "")
	kube := env.Clients.Kube
	meta := func(i int) metav1.ObjectMeta { return metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i)} }
	create := map[corev1.ResourceName]func(i int) error{
		"networkpolicies.networking.k8s.io": func(i int) error {
			_, err := kube.NetworkingV1().NetworkPolicies(ns).Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: meta(i)},
				metav1.CreateOptions{})
			return err
		},
		"services": func(i int) error {
			headless := &corev1.Service{
				ObjectMeta: meta(i), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}},
			}
			_, err := kube.CoreV1().Services(ns).Create(t.Context(), headless, metav1.CreateOptions{})
			return err
		},
		"endpointslices.discovery.k8s.io": func(i int) error {
			slice := &discoveryv1.EndpointSlice{ObjectMeta: meta(i), AddressType: discoveryv1.AddressTypeIPv4}
			_, err := kube.DiscoveryV1().EndpointSlices(ns).Create(t.Context(), slice, metav1.CreateOptions{})
			return err
		},
	}
	var kinds []corev1.ResourceName
	for kind := range create {
		kinds = append(kinds, kind)
	}
	boundNamespace(t, ns, kinds...)
	for kind, one := range create {
		for i := range 2 {
			if err := one(i); err != nil {
				t.Errorf("%s: number %d of 2: %v", kind, i+1, err)
			}
		}
		if err := one(2); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: atoll") {
			t.Errorf("%s: one more than the quota: %v", kind, err)
		}
	}
}
