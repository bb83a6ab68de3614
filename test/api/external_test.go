//go:build integration

package api

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/wait"
)

var dry = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// editor is a user with the role edit in a namespace, and the right to write the status of its Services, which the role has not.
func editor(t *testing.T, s *apiserver.Server, admin kubernetes.Interface, name string) kubernetes.Interface {
	t.Helper()
	_, err := admin.RbacV1().Roles(name).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "status"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services/status"}, Verbs: []string{"*"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []rbacv1.RoleRef{
		// What the role edit is made of: nobody puts it together here.
		{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-edit"},
		{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-view"},
		{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "status"},
	} {
		_, err := admin.RbacV1().RoleBindings(name).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "editor-"}, RoleRef: ref,
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "editor-" + name}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	client := clientFor(t, s.As("editor-"+name))
	wait.Eventually(t, wait.Patience, "the role edit in "+name, func(ctx context.Context) error {
		_, err := client.CoreV1().Services(name).List(ctx, metav1.ListOptions{})
		return err
	})
	return client
}

// makeNamespace makes a namespace as an administrator.
func makeNamespace(t *testing.T, admin kubernetes.Interface, name string, labels, annotations map[string]string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}}
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// testExternal: which external addresses a Service gets, and from whom.
func testExternal(t *testing.T, s *apiserver.Server) {
	const (
		infra   = "addresses of the infrastructure's"
		granted = "that the namespace is granted"
		assign  = "may assign loadbalanceraddresses.atoll.dev"
		plain   = "external addresses are plain IP addresses"
	)
	admin := clientFor(t, s.RESTConfig())
	makeNamespace(t, admin, "ext-none", map[string]string{"atoll.dev/network": "red"}, nil)
	makeNamespace(t, admin, "ext-some", map[string]string{"atoll.dev/network": "red"}, map[string]string{
		"atoll.dev/external-ranges": "198.51.100.0/24, 2001:db8::/64,10.0.0.0/8",
	})
	makeNamespace(t, admin, "ext-plain", nil, nil)
	makeNamespace(t, admin, "ext-infra", map[string]string{"atoll.dev/infrastructure": "true"}, nil)
	grant(t, admin, "atoll-loadbalancer-controller", "balancers")
	grant(t, admin, "writes-services", "balancers", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"services", "services/status"}, Verbs: []string{"*"},
	})
	balancer := clientFor(t, s.As("balancer", "balancers"))
	editors := map[string]kubernetes.Interface{}
	for _, name := range []string{"ext-none", "ext-some", "ext-plain", "ext-infra"} {
		editors[name] = editor(t, s, admin, name)
	}
	service := func(name string, change func(*corev1.ServiceSpec)) *corev1.Service {
		object := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}},
			},
		}
		if change != nil {
			change(&object.Spec)
		}
		return object
	}
	external := func(address string) func(*corev1.ServiceSpec) {
		return func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{address} }
	}
	create := func(client kubernetes.Interface, namespace string, object *corev1.Service) error {
		_, err := client.CoreV1().Services(namespace).Create(t.Context(), object, dry)
		return err
	}
	for _, address := range []string{"100.64.0.1", inInfra, inClosed} {
		waitForPolicies(t, func(ctx context.Context) error {
			_, err := admin.CoreV1().Services("ext-none").Create(ctx, service("early", external(address)), dry)
			return err
		})
	}
	for _, test := range []struct{ namespace, address, refusal string }{
		{"ext-none", "198.51.100.9", granted},
		{"ext-plain", "198.51.100.9", granted},
		{"ext-some", "203.0.113.9", granted},
		{"ext-some", "198.51.100.9", ""},
		{"ext-some", "2001:db8::9", ""},
		{"ext-some", "10.9.9.9", ""},
		{"ext-infra", "203.0.113.9", ""},
		{"ext-some", "100.64.0.9", infra},
		{"ext-some", "fd64:a701::9", infra},
		{"ext-some", "10.96.0.10", infra},
		{"ext-some", "10.244.1.9", infra},
		{"ext-some", "172.30.0.11", infra},
		{"ext-some", "172.31.0.11", infra},
		{"ext-some", inInfra, infra},
		{"ext-some", inClosed, infra},
		{"ext-infra", "100.64.0.9", infra},
		{"ext-some", "::ffff:100.64.0.9", plain},
		{"ext-some", "100.064.0.9", ""}, // refused by the API server itself, or by the policy
	} {
		t.Run(test.namespace+" "+test.address, func(t *testing.T) {
			who := editors[test.namespace]
			byIP := create(who, test.namespace, service("x", external(test.address)))
			byBalancer := create(who, test.namespace, service("x", func(s *corev1.ServiceSpec) { s.LoadBalancerIP = test.address }))
			if test.address == "100.064.0.9" {
				if byIP == nil || byBalancer == nil {
					t.Errorf("an address with a leading zero is admitted: %v, %v", byIP, byBalancer)
				}
				return
			}
			expect(t, byBalancer, test.refusal)
			if test.refusal == plain && byIP != nil {
				return // the API server may refuse the form itself
			}
			expect(t, byIP, test.refusal)
		})
	}
	t.Run("an administrator may write any address but the infrastructure's", func(t *testing.T) {
		expect(t, create(admin, "ext-none", service("x", external("203.0.113.9"))), "")
		expect(t, create(admin, "ext-none", service("x", external("100.64.0.9"))), infra)
	})

	made, err := admin.CoreV1().Services("ext-none").Create(t.Context(), service("web", external("203.0.113.8")), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	publish := func(ctx context.Context, client kubernetes.Interface, o metav1.UpdateOptions, ingress ...corev1.LoadBalancerIngress) error {
		now, err := admin.CoreV1().Services("ext-none").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status.LoadBalancer.Ingress = ingress
		_, err = client.CoreV1().Services("ext-none").UpdateStatus(ctx, now, o)
		return err
	}
	at := func(ip string) corev1.LoadBalancerIngress { return corev1.LoadBalancerIngress{IP: ip} }
	proxy := corev1.LoadBalancerIPModeProxy
	tenant := editors["ext-none"]
	for _, step := range []struct {
		what, refusal string
		do            func() error
	}{
		{"a tenant keeps what an administrator wrote", "", func() error {
			made.Labels = map[string]string{"a": "b"}
			_, err := tenant.CoreV1().Services("ext-none").Update(t.Context(), made, metav1.UpdateOptions{})
			return err
		}},
		{"a tenant publishes", assign, func() error { return publish(t.Context(), tenant, metav1.UpdateOptions{}, at("203.0.113.7")) }},
		{"a tenant publishes a face", infra, func() error { return publish(t.Context(), tenant, metav1.UpdateOptions{}, at("100.64.0.9")) }},
		{
			"a controller of load balancers publishes",
			"", func() error { return publish(t.Context(), balancer, metav1.UpdateOptions{}, at("203.0.113.7")) },
		},
		{"it publishes a face", infra, func() error { return publish(t.Context(), balancer, metav1.UpdateOptions{}, at("100.64.0.9")) }},
		{
			"it publishes a node's address", infra,
			func() error { return publish(t.Context(), balancer, metav1.UpdateOptions{}, at("172.30.0.11")) },
		},
		{"a tenant adds an address", assign, func() error {
			return publish(t.Context(), tenant, metav1.UpdateOptions{}, at("203.0.113.7"), at("203.0.113.6"))
		}},
		{"a tenant changes how it is caught", assign, func() error {
			return publish(t.Context(), tenant, metav1.UpdateOptions{}, corev1.LoadBalancerIngress{IP: "203.0.113.7", IPMode: &proxy})
		}},
		{"a tenant leaves it as it is", "", func() error { return publish(t.Context(), tenant, metav1.UpdateOptions{}, at("203.0.113.7")) }},
		{"a tenant removes it", "", func() error { return publish(t.Context(), tenant, metav1.UpdateOptions{}) }},
		{"control: without the policy a tenant catches a face", "", func() error {
			return without(t, admin, func(ctx context.Context) error {
				_, err := tenant.CoreV1().Services("ext-none").Create(ctx, service("x", external("100.64.0.9")), dry)
				return errors.Join(err, publish(ctx, tenant, metav1.UpdateOptions{DryRun: dry.DryRun}, at("100.64.0.9")))
			}, "atoll-external-addresses")
		}},
	} {
		t.Run(step.what, func(t *testing.T) { expect(t, step.do(), step.refusal) })
	}
}

// testNodesUnknown: without settings nobody writes any Service, which fails closed; and with those that are shipped, which know
// no nodes, nobody writes one with an external address.
func testNodesUnknown(t *testing.T, s *apiserver.Server) {
	if err := s.Apply(t.Context(), dist+"/admission"); err != nil {
		t.Fatal(err)
	}
	const unknown = "until its AtollConfig has the nodes' ranges of that IP family"
	admin := clientFor(t, s.RESTConfig())
	try := func(ctx context.Context, external ...string) error {
		_, err := admin.CoreV1().Services("default").Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.ServiceSpec{ExternalIPs: external, Ports: []corev1.ServicePort{{Port: 80}}},
		}, dry)
		return err
	}
	waitForPolicies(t, func(ctx context.Context) error { return try(ctx) })
	expect(t, try(t.Context()), "no params found for policy binding")
	if err := s.Apply(t.Context(), dist+"/config"); err != nil {
		t.Fatal(err)
	}
	wait.Eventually(t, wait.Patience, "Services are written", func(ctx context.Context) error { return try(ctx) })
	expect(t, try(t.Context(), "203.0.113.9"), unknown)
	testSlicesWhereNodesAreUnknown(t, s)
	// Those of IPv4 are known now.
	expect(t, try(t.Context(), "203.0.113.9"), "")
	expect(t, try(t.Context(), "2001:db8::9"), unknown)
}
