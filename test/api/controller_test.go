//go:build integration

package api

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/apiserver"
)

// theft is what somebody who has the controller's token tries.
type theft struct {
	what string
	// refusal is what the answer has in it; none: the controller needs it.
	refusal string
	do      func(context.Context) error
}

// tries tries each, and as a control all that is refused once more without the binding.
func tries(t *testing.T, admin kubernetes.Interface, binding string, all []theft) {
	t.Helper()
	for _, one := range all {
		if one.refusal != "" {
			waitForPolicies(t, one.do)
			break
		}
	}
	for _, one := range all {
		t.Run(one.what, func(t *testing.T) { expect(t, one.do(t.Context()), one.refusal) })
	}
	t.Run("control: without "+binding, func(t *testing.T) {
		expect(t, without(t, admin, func(ctx context.Context) (err error) {
			for _, one := range all {
				if one.refusal != "" {
					err = errors.Join(err, one.do(ctx))
				}
			}
			return err
		}, binding), "")
	})
}

// testStolenController: with the controller's rights nobody writes more than the controller does.
func testStolenController(t *testing.T, s *apiserver.Server) {
	admin, thief := clientFor(t, s.RESTConfig()), clientFor(t,
		s.As(controller, "system:serviceaccounts", "system:serviceaccounts:atoll-system"))
	makeNamespace(t, admin, "stolen", nil, nil)
	t.Run("pods", func(t *testing.T) { stolenPods(t, admin, thief) })
	t.Run("Services and Nodes", func(t *testing.T) { stolenAnnotations(t, admin, thief) })
	t.Run("slices", func(t *testing.T) { stolenSlices(t, admin, thief) })
	t.Run("roles", func(t *testing.T) { stolenRoles(t, admin, thief) })
	t.Run("Secrets", func(t *testing.T) { stolenSecrets(t, admin, thief) })
}

var dryPatch = metav1.PatchOptions{DryRun: dry.DryRun}

// stolenPods are pods as a kubelet leaves them.
func stolenPods(t *testing.T, admin, thief kubernetes.Interface) {
	p := pod("web", "atoll.dev/network=red", "note=mine")
	p.Namespace, p.Finalizers = "stolen", []string{"example.com/kept"}
	made, err := admin.CoreV1().Pods("stolen").Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC))
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0.5"), corev1.ResourceMemory: resource.MustParse("1024Mi")}
	made.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &at, PodIP: "10.0.0.5", PodIPs: []corev1.PodIP{{IP: "10.0.0.5"}, {IP: "fd00::5"}},
		HostIP:     "192.0.2.1",
		HostIPs:    []corev1.HostIP{{IP: "192.0.2.1"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastProbeTime: at, LastTransitionTime: at}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", Image: "none", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
			AllocatedResources: amounts, Resources: &corev1.ResourceRequirements{Requests: amounts},
		}},
	}
	if _, err := admin.CoreV1().Pods("stolen").UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(body string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := thief.CoreV1().Pods("stolen").Patch(ctx, "web", types.MergePatchType, []byte(body), dryPatch, "status")
			return err
		}
	}
	const only = "of pods, and nothing else"
	tries(t, admin, "atoll-pods", []theft{
		{"a phase", only, patch(`{"status":{"phase":"Failed"}}`)},
		{"an address", only, patch(`{"status":{"podIP":"10.0.0.6","podIPs":[{"ip":"10.0.0.6"}]}}`)},
		{"readiness", only, patch(`{"status":{"conditions":[]}}`)},
		{"a label", only, patch(`{"metadata":{"labels":{"app":"db"}}}`)},
		{"a label more", only, patch(`{"metadata":{"labels":{"tier":"db"}}}`)},
		{"a label less", only, patch(`{"metadata":{"labels":{"app":null}}}`)},
		{"its Network", only, patch(`{"metadata":{"labels":{"atoll.dev/network":"blue"}}}`)},
		{"another annotation", only, patch(`{"metadata":{"annotations":{"note":"yours"}}}`)},
		{"an annotation more", only, patch(`{"metadata":{"annotations":{"atoll.dev/nics":"[]"}}}`)},
		{"an annotation less", only, patch(`{"metadata":{"annotations":{"note":null}}}`)},
		{"a finalizer", only, patch(`{"metadata":{"finalizers":["a.b/c"]}}`)},
		{"no finalizer", only, patch(`{"metadata":{"finalizers":null}}`)},
		{
			"a label beside what the controller writes", only,
			patch(`{"metadata":{"labels":{"app":"db"},"annotations":{"atoll.dev/attachments":"[]"}}}`),
		},
		{
			"what the controller writes", "",
			patch(
				`{"metadata":{"annotations":{"atoll.dev/attachments":"[]","atoll.dev/addresses":"10.0.0.5","k8s.v1.cni.cncf.io/network-status":"[]"}}}`),
		},
		{
			"that it is gone",
			"",
			patch(`{"metadata":{"annotations":{"atoll.dev/attachments":null,"atoll.dev/addresses":null,"k8s.v1.cni.cncf.io/network-status":null}}}`),
		},
	})
}

func stolenAnnotations(t *testing.T, admin, thief kubernetes.Interface) {
	_, err := admin.CoreV1().Services("stolen").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"note": "mine"}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "stolen", Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"note": "mine"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), "stolen", metav1.DeleteOptions{})
	})
	service := func(body string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := thief.CoreV1().Services("stolen").Patch(ctx, "web", types.MergePatchType, []byte(body), dryPatch)
			return err
		}
	}
	node := func(body string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := thief.CoreV1().Nodes().Patch(ctx, "stolen", types.MergePatchType, []byte(body), dryPatch)
			return err
		}
	}
	const ofServices, ofNodes = "one annotation of services, atoll.dev/service-addresses, and nothing else",
		"one annotation of nodes, atoll.dev/node, and nothing else"
	tries(t, admin, "atoll-controller", []theft{
		{"a selector", ofServices, service(`{"spec":{"selector":{"app":"thief"}}}`)},
		{"a node port", ofServices, service(`{"spec":{"type":"NodePort"}}`)},
		{"a Service's label", ofServices, service(`{"metadata":{"labels":{"a":"b"}}}`)},
		{"a Service's annotation", ofServices, service(`{"metadata":{"annotations":{"atoll.dev/service-ips":"10.0.0.9"}}}`)},
		{"a Service's annotation less", ofServices, service(`{"metadata":{"annotations":{"note":null}}}`)},
		{"a Node's annotation on a Service", ofServices, service(`{"metadata":{"annotations":{"atoll.dev/node":"{}"}}}`)},
		{"a Service's finalizer", ofServices, service(`{"metadata":{"finalizers":["a.b/c"]}}`)},
		{"a Service's owner", ofServices, service(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"gone","uid":"0"}]}}`)},
		{"a Service's addresses", "", service(`{"metadata":{"annotations":{"atoll.dev/service-addresses":"{}"}}}`)},
		{"that they are gone", "", service(`{"metadata":{"annotations":{"atoll.dev/service-addresses":null}}}`)},
		{"a taint", ofNodes, node(`{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`)},
		{"no scheduling", ofNodes, node(`{"spec":{"unschedulable":true}}`)},
		{"a Node's label", ofNodes, node(`{"metadata":{"labels":{"zone":"b"}}}`)},
		{"a Node's label less", ofNodes, node(`{"metadata":{"labels":{"zone":null}}}`)},
		{"a Node's annotation", ofNodes, node(`{"metadata":{"annotations":{"note":"yours"}}}`)},
		{"a Node's finalizer", ofNodes, node(`{"metadata":{"finalizers":["a.b/c"]}}`)},
		{"what a node has", "", node(`{"metadata":{"annotations":{"atoll.dev/node":"{}"}}}`)},
	})
}

func stolenSlices(t *testing.T, admin, thief kubernetes.Interface) {
	endpoint := func(ready bool) []discoveryv1.Endpoint {
		return []discoveryv1.Endpoint{{Addresses: []string{"203.0.113.66"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}
	}
	for namespace, service := range map[string]string{"stolen": "web", "kube-system": "kube-dns", "default": "kubernetes"} {
		_, err := admin.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name: "stolen", Labels: map[string]string{
					discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
				},
			},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.5"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = admin.DiscoveryV1().EndpointSlices(namespace).Delete(context.WithoutCancel(t.Context()), "stolen", metav1.DeleteOptions{})
		})
	}
	mirror := func(name string, change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
		out := intake.Mirror(model.Mirror{
			Network: "red", Source: model.SliceKey{Namespace: "stolen", Name: name}, SourceUID: "u", Service: "web",
		})
		out.AddressType, out.Endpoints = discoveryv1.AddressTypeIPv4, endpoint(false)
		change(out)
		return out
	}
	create := func(namespace string, change func(*discoveryv1.EndpointSlice)) func(context.Context) error {
		return func(ctx context.Context) error {
			made := mirror("new", change)
			made.Namespace = namespace
			_, err := thief.DiscoveryV1().EndpointSlices(namespace).Create(ctx, made, dry)
			return err
		}
	}
	same := func(*discoveryv1.EndpointSlice) {}
	there, err := thief.DiscoveryV1().EndpointSlices("stolen").Create(t.Context(), mirror("there", same), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	update := func(namespace, name string, change func(*discoveryv1.EndpointSlice)) func(context.Context) error {
		return func(ctx context.Context) error {
			now, err := admin.DiscoveryV1().EndpointSlices(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(now)
			_, err = thief.DiscoveryV1().EndpointSlices(namespace).Update(ctx, now, metav1.UpdateOptions{DryRun: dry.DryRun})
			return err
		}
	}
	remove := func(namespace, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return thief.DiscoveryV1().EndpointSlices(namespace).Delete(ctx, name, metav1.DeleteOptions{DryRun: dry.DryRun})
		}
	}
	of := func(service string) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = service }
	}
	lead := func(s *discoveryv1.EndpointSlice) { s.Endpoints = endpoint(true) }
	const only = "atoll-controller writes mirrors only"
	tries(t, admin, "atoll-controller", []theft{
		{"a slice of the Service kubernetes", only, create("default", of("kubernetes"))},
		{"a slice of kube-dns", only, create("kube-system", of("kube-dns"))},
		{"a mirror that is ready", only, create("stolen", lead)},
		{
			"a mirror that says nothing of readiness, and so is ready", only, create("stolen",
				func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = nil }),
		},
		{
			"a mirror for kube-proxy", only, create("stolen",
				func(s *discoveryv1.EndpointSlice) { delete(s.Labels, "service.kubernetes.io/service-proxy-name") }),
		},
		{"a slice that is nobody's", only, create("stolen", func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelManagedBy) })},
		{"where the Service kubernetes leads", only, update("default", "stolen", lead)},
		{"where kube-dns leads", only, update("kube-system", "stolen", lead)},
		{
			"a slice made a mirror", only, update("kube-system",
				"stolen", func(s *discoveryv1.EndpointSlice) { s.Labels = mirror("x", same).Labels }),
		},
		{"a mirror made a Service's", only, update("stolen", there.Name, of("web"))},
		{"a mirror that does not go", only, create("stolen", func(s *discoveryv1.EndpointSlice) { s.Finalizers = []string{"a.b/c"} })},
		{"a slice less", only, remove("kube-system", "stolen")},
		{"a mirror", "", create("stolen", same)},
		{"an empty mirror", "", create("stolen", func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil })},
		{
			"a mirror with another endpoint", "", update("stolen", there.Name,
				func(s *discoveryv1.EndpointSlice) { s.Endpoints = append(s.Endpoints, endpoint(false)...) }),
		},
		{"a mirror less", "", remove("stolen", there.Name)},
	})
}

func stolenRoles(t *testing.T, admin, thief kubernetes.Interface) {
	want := model.TenantRole{
		Tenant: "stolen", TenantUID: "u", Networks: []string{"stolen"}, Admins: []model.TenantAdmin{{Kind: "User", Name: "jo"}},
	}
	role := func(change func(*rbacv1.ClusterRole)) func(context.Context) error {
		return func(ctx context.Context) error {
			made := intake.TenantRole(want)
			change(made)
			_, err := thief.RbacV1().ClusterRoles().Create(ctx, made, dry)
			return err
		}
	}
	rule := func(r rbacv1.PolicyRule) func(context.Context) error {
		return role(func(made *rbacv1.ClusterRole) { made.Rules = append(made.Rules, r) })
	}
	bind := func(change func(*rbacv1.ClusterRoleBinding)) func(context.Context) error {
		return func(ctx context.Context) error {
			made := intake.TenantBinding(want)
			change(made)
			_, err := thief.RbacV1().ClusterRoleBindings().Create(ctx, made, dry)
			return err
		}
	}
	if _, err := thief.RbacV1().ClusterRoles().Create(t.Context(), intake.TenantRole(want), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// From here on the role is there: what is made is another one's.
	want.Tenant = "stolen-2"
	networks := rbacv1.PolicyRule{APIGroups: []string{"atoll.dev"}, Resources: []string{"networks"}, Verbs: []string{"update"}}
	const part, rights, same = "that are part of no other", "rights on atoll.dev and inspect.atoll.dev only, and by name",
		"of the same name only"
	tries(t, admin, "atoll-tenant-roles", []theft{
		{"its rights for view", part, role(func(r *rbacv1.ClusterRole) { r.Labels["rbac.authorization.k8s.io/aggregate-to-view"] = "true" })},
		{"a label by which some role aggregates", part, role(func(r *rbacv1.ClusterRole) { r.Labels["example.com/part-of"] = "all" })},
		{
			"pods of the whole cluster", rights, rule(rbacv1.PolicyRule{
				APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"},
			}),
		},
		{"all Networks", rights, rule(networks)},
		{"another role bound", same, bind(func(b *rbacv1.ClusterRoleBinding) { b.RoleRef.Name = "atoll:tenant:stolen" })},
		{"a tenant's role", "", role(func(*rbacv1.ClusterRole) {})},
	})
	t.Run("a role that aggregates", func(t *testing.T) {
		// RBAC refuses it to whoever has not every right, policy or none.
		expect(t, role(func(r *rbacv1.ClusterRole) {
			r.Rules, r.AggregationRule = nil, &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{}}}
		})(t.Context()), "aggregation")
	})
	t.Run("a binding", func(t *testing.T) {
		want.Tenant = "stolen"
		expect(t, bind(func(*rbacv1.ClusterRoleBinding) {})(t.Context()), "")
	})
}

func stolenSecrets(t *testing.T, admin, thief kubernetes.Interface) {
	if _, err := admin.CoreV1().ServiceAccounts("atoll-system").Get(t.Context(), "atoll-agent", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	const authority = "atoll.dev/certificate-authority"
	secret := func(name string, kind corev1.SecretType) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := thief.CoreV1().Secrets("atoll-system").Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "atoll-agent"}}, Type: kind,
			}, dry)
			return err
		}
	}
	text := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := thief.CoreV1().ConfigMaps("atoll-system").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, dry)
			return err
		}
	}
	const only, record = "changes the ConfigMap atoll-ovn, and writes no other", "atoll-ovn"
	if _, err := admin.CoreV1().ConfigMaps("atoll-system").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: record}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = admin.CoreV1().ConfigMaps("atoll-system").Delete(context.WithoutCancel(t.Context()), record, metav1.DeleteOptions{})
	})
	tries(t, admin, "atoll-authorities", []theft{
		{"another's token", only, secret("token", corev1.SecretTypeServiceAccountToken)},
		{"another's token, with an authority's name", only, secret("atoll-ca-node", corev1.SecretTypeServiceAccountToken)},
		{"another Secret", only, secret("other", authority)},
		{"another ConfigMap", only, text("kube-root-ca.crt.2")},
		{"an authority", "", secret("atoll-ca-node", authority)},
		{"what all trust", "", text("atoll-ca")},
		{"that the southbound database is open to nodes", "", func(ctx context.Context) error {
			_, err := thief.CoreV1().ConfigMaps("atoll-system").Update(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: record}, Data: map[string]string{"sb": "{}"},
			}, metav1.UpdateOptions{DryRun: dry.DryRun})
			return err
		}},
	})
	t.Run("elsewhere", func(t *testing.T) {
		_, err := thief.CoreV1().Secrets("stolen").Create(t.Context(),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "atoll-ca-node"}, Type: authority}, dry)
		expect(t, err, "cannot create resource")
	})
}
