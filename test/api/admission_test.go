//go:build integration

package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/wait"
)

// core is a group whose members may do everything with the core API group, and nothing with Networks: what RBAC
// would refuse a tenant anyway is left to the policies alone.
const core = "everything-in-core"

func grant(t *testing.T, client kubernetes.Interface, role, group string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	if len(rules) > 0 {
		_, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role + "-to-" + group},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func pod(name, labels, annotations string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", Labels: map[string]string{"app": name}, Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
	for _, set := range []struct {
		pair string
		into map[string]string
	}{{labels, p.Labels}, {annotations, p.Annotations}} {
		if key, value, is := strings.Cut(set.pair, "="); is {
			set.into[key] = value
		}
	}
	return p
}

// merge is a merge patch of metadata, in JSON.
func merge(what, key, value string) []byte {
	if value != "null" {
		value = `"` + value + `"`
	}
	return fmt.Appendf(nil, `{"metadata":{%q:{%q:%s}}}`, what, key, value)
}

// waitForPolicies waits until the server enforces the policies, which it learns of some time after they were made.
func waitForPolicies(t *testing.T, try func(context.Context) error) {
	t.Helper()
	wait.Until(t, wait.Patience, "the policies are enforced", func() bool {
		err := try(t.Context())
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
	})
}

// without tries what policies refuse while their bindings are away: the control of a test that it is they who refuse.
func without(t *testing.T, admin kubernetes.Interface, try func(context.Context) error, bindings ...string) error {
	t.Helper()
	all := admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	for _, name := range bindings {
		binding, err := all.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := all.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		defer func() {
			binding.ResourceVersion, binding.UID = "", ""
			if _, err := all.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		}()
	}
	// The server learns of it some time later.
	return wait.For(t.Context(), wait.Patience, try)
}

func testPods(t *testing.T, s *apiserver.Server) {
	const (
		attachments  = "atoll.dev/attachments"
		status       = "k8s.v1.cni.cncf.io/network-status"
		written      = "is written by atoll-controller only"
		fixed        = "of a pod cannot change; make the pod anew"
		boundNothing = "a Binding cannot set"
	)
	admin := clientFor(t, s.RESTConfig())
	grant(t, admin, core, core, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"*"}, Verbs: []string{"*"}})
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	as := func(user string, groups ...string) kubernetes.Interface { return clientFor(t, s.As(user, groups...)) }
	users := map[string]kubernetes.Interface{
		"tenant":     as("tenant", core),
		"kubelet":    as("system:node:n1", "system:nodes", core),
		"collector":  as("system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccounts", core),
		"controller": as(controller, "system:serviceaccounts", "system:serviceaccounts:atoll-system"),
		"impostor":   as("system:serviceaccount:team:atoll-controller", "system:serviceaccounts", core),
		"admin":      admin,
	}
	create := func(user string, p *corev1.Pod) error {
		_, err := users[user].CoreV1().Pods("team").Create(t.Context(), p, metav1.CreateOptions{})
		return err
	}
	patch := func(user string, body []byte, subresources ...string) error {
		_, err := users[user].CoreV1().Pods("team").Patch(t.Context(), "web", types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
		return err
	}
	bind := func(labels, annotations map[string]string) error {
		return users["tenant"].CoreV1().Pods("team").Bind(t.Context(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "team", Labels: labels, Annotations: annotations},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
		}, metav1.CreateOptions{})
	}
	waitForPolicies(t, func(ctx context.Context) error {
		_, err := admin.CoreV1().Pods("team").Create(ctx, pod("early", "", attachments+"=[]"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	waitForPolicies(t, func(ctx context.Context) error {
		return admin.CoreV1().Pods("team").Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "early", Namespace: "team", Annotations: map[string]string{attachments: ""}},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	})

	// One after the other: each step finds what the ones before left.
	for _, step := range []struct {
		what, refusal string
		do            func() error
	}{
		{"a tenant makes a pod with addresses", written, func() error { return create("tenant", pod("fake", "", attachments+"=[]")) }},
		{"a tenant makes a pod with empty addresses", written, func() error { return create("tenant", pod("fake", "", attachments+"=")) }},
		{"a tenant makes a pod with a status", written, func() error { return create("tenant", pod("fake", "", status+"=[]")) }},
		{"an impostor makes a pod with addresses", written, func() error { return create("impostor", pod("fake", "", attachments+"=[]")) }},
		{"even an admin cannot", written, func() error { return create("admin", pod("fake", "", attachments+"=[]")) }},
		{
			"a tenant makes a pod that names its Network", "",
			func() error { return create("tenant", pod("web", "atoll.dev/network=red", "atoll.dev/nics=[]")) },
		},
		{"a tenant makes a plain pod", "", func() error { return create("tenant", pod("plain", "", "")) }},
		{"a tenant makes a pod without any annotation", "", func() error {
			p := pod("bare", "", "")
			p.Labels, p.Annotations = nil, nil
			return create("tenant", p)
		}},

		{"a tenant writes addresses", written, func() error { return patch("tenant", merge("annotations", attachments, "[]")) }},
		{
			"a tenant writes addresses through the status", written,
			func() error { return patch("tenant", merge("annotations", attachments, "[]"), "status") },
		},
		{
			"a kubelet writes addresses through the status", written,
			func() error { return patch("kubelet", merge("annotations", attachments, "[]"), "status") },
		},
		{"a binding brings addresses", boundNothing, func() error { return bind(nil, map[string]string{attachments: "[]"}) }},
		{"a binding brings a status", boundNothing, func() error { return bind(nil, map[string]string{status: "[]"}) }},
		{"a binding brings interfaces", boundNothing, func() error { return bind(nil, map[string]string{"atoll.dev/nics": "[]"}) }},
		{"a binding brings a Network", boundNothing, func() error { return bind(map[string]string{"atoll.dev/network": "blue"}, nil) }},
		{"a binding brings something else", "", func() error { return bind(map[string]string{"zone": "a"}, map[string]string{"note": "b"}) }},

		{
			"the controller changes what runs",
			"cannot patch", func() error { return patch("controller", merge("annotations", attachments, "[1]")) },
		},
		{"the controller writes addresses", "", func() error { return patch("controller", merge("annotations", attachments, "[1]"), "status") }},
		{"the controller writes a status", "", func() error { return patch("controller", merge("annotations", status, "[1]"), "status") }},
		{"a tenant changes addresses", written, func() error { return patch("tenant", merge("annotations", attachments, "[2]")) }},
		{"a tenant removes addresses", written, func() error { return patch("tenant", merge("annotations", attachments, "null")) }},
		{"a tenant removes the status", written, func() error { return patch("tenant", merge("annotations", status, "null")) }},
		{
			"a kubelet removes addresses through the status", written,
			func() error { return patch("kubelet", merge("annotations", attachments, "null"), "status") },
		},

		{"a tenant changes the Network", fixed, func() error { return patch("tenant", merge("labels", "atoll.dev/network", "blue")) }},
		{"a tenant removes the Network", fixed, func() error { return patch("tenant", merge("labels", "atoll.dev/network", "null")) }},
		{
			"a tenant changes the Network through the status", fixed,
			func() error { return patch("tenant", merge("labels", "atoll.dev/network", "blue"), "status") },
		},
		{"a tenant changes the interfaces", fixed, func() error { return patch("tenant", merge("annotations", "atoll.dev/nics", "[{}]")) }},

		{"a tenant writes other metadata", "", func() error {
			return patch("tenant", []byte(`{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"}}}`))
		}},
		{"a kubelet writes a status", "", func() error {
			return patch("kubelet", []byte(`{"status":{"phase":"Running","podIP":"10.0.0.5"}}`), "status")
		}},
		{"the collector writes owners", "", func() error { return patch("collector", []byte(`{"metadata":{"ownerReferences":null}}`)) }},
		{
			"the controller removes addresses", "", func() error { return patch("controller", merge("annotations", attachments, "null"), "status") },
		},
		{"a tenant deletes the pod", "", func() error {
			return users["tenant"].CoreV1().Pods("team").Delete(t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		}},
	} {
		t.Run(step.what, func(t *testing.T) { expect(t, step.do(), step.refusal) })
	}
}

func testNamespaces(t *testing.T, s *apiserver.Server) {
	const notYours = "only those who may update networks.atoll.dev"
	admin := clientFor(t, s.RESTConfig())
	grant(t, admin, "atoll-network-admin", "owners")
	tenant, owner := clientFor(t, s.As("tenant", core)), clientFor(t, s.As("owner", core, "owners"))
	namespace := func(name string, labels map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	create := func(client kubernetes.Interface, n *corev1.Namespace) error {
		_, err := client.CoreV1().Namespaces().Create(t.Context(), n, metav1.CreateOptions{})
		return err
	}
	patch := func(client kubernetes.Interface, key, value string, subresources ...string) error {
		_, err := client.CoreV1().Namespaces().Patch(t.Context(), "mine", types.MergePatchType, merge("labels", key, value),
			metav1.PatchOptions{}, subresources...)
		return err
	}
	const enforce = "pod-security.kubernetes.io/enforce"
	annotate := func(client kubernetes.Interface, value string) error {
		_, err := client.CoreV1().Namespaces().Patch(t.Context(),
			"mine", types.MergePatchType, merge("annotations", "atoll.dev/external-ranges", value), metav1.PatchOptions{})
		return err
	}
	finalize := func(client kubernetes.Interface, labels map[string]string) error {
		n, err := client.CoreV1().Namespaces().Get(t.Context(), "mine", metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Labels = labels
		_, err = client.CoreV1().Namespaces().Finalize(t.Context(), n, metav1.UpdateOptions{})
		return err
	}
	waitForPolicies(t, func(ctx context.Context) error {
		_, err := tenant.CoreV1().Namespaces().Create(ctx, namespace("early", map[string]string{"atoll.dev/tenant": "acme"}),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})

	type step struct {
		what, refusal string
		do            func() error
	}
	steps := []step{{"a tenant makes a plain namespace", "", func() error { return create(tenant, namespace("mine", nil)) }}}
	for _, key := range []string{"atoll.dev/tenant", "atoll.dev/network", "atoll.dev/infrastructure"} {
		to := map[string]string{key: "acme"}
		steps = append(steps, []step{
			{"a tenant makes a namespace with it", notYours, func() error { return create(tenant, namespace("other", to)) }},
			{
				"a tenant makes a namespace with nothing in it", notYours,
				func() error { return create(tenant, namespace("other", map[string]string{key: ""})) },
			},
			{"a tenant sets it", notYours, func() error { return patch(tenant, key, "acme") }},
			{"a tenant sets it through the status", notYours, func() error { return patch(tenant, key, "acme", "status") }},
			{"a tenant sets it through finalize", notYours, func() error { return finalize(tenant, to) }},
			{"an owner sets it", "", func() error { return patch(owner, key, "acme") }},
			{"a tenant leaves it as it is", "", func() error { return patch(tenant, key, "acme") }},
			{"a tenant changes it", notYours, func() error { return patch(tenant, key, "other") }},
			{"a tenant removes it", notYours, func() error { return patch(tenant, key, "null") }},
			{"a tenant removes it through finalize", notYours, func() error { return finalize(tenant, nil) }},
			{"a tenant writes other labels", "", func() error { return patch(tenant, "team", "a") }},
			{"an owner removes it", "", func() error { return patch(owner, key, "null") }},
		}...)
		for i := len(steps) - 12; i < len(steps); i++ {
			steps[i].what = key + ": " + steps[i].what
		}
	}
	steps = append(steps, []step{
		{"an owner makes a namespace with all of them", "", func() error {
			return create(owner,
				namespace("theirs", map[string]string{"atoll.dev/tenant": "acme", "atoll.dev/network": "red", "atoll.dev/infrastructure": "true"}))
		}},
		{"a tenant grants external ranges", notYours, func() error { return annotate(tenant, "198.51.100.0/24") }},
		{"an owner grants external ranges", "", func() error { return annotate(owner, "198.51.100.0/24") }},
		{"a tenant changes external ranges", notYours, func() error { return annotate(tenant, "0.0.0.0/0") }},
		{"a tenant removes external ranges", notYours, func() error { return annotate(tenant, "null") }},
		{"a tenant makes his namespace, of no Network, privileged", notYours, func() error { return patch(tenant, enforce, "privileged") }},
		{
			"a tenant makes a privileged namespace", notYours,
			func() error { return create(tenant, namespace("other", map[string]string{enforce: "privileged"})) },
		},
		{"a tenant makes it baseline", "", func() error { return patch(tenant, enforce, "baseline") }},
		{"an owner gives it a Network", "", func() error { return patch(owner, "atoll.dev/network", "red") }},
		{"a tenant makes it privileged", notYours, func() error { return patch(tenant, enforce, "privileged") }},
		{"a tenant makes it privileged through the status", notYours, func() error { return patch(tenant, enforce, "privileged", "status") }},
		{"a tenant makes it restricted", "", func() error { return patch(tenant, enforce, "restricted") }},
		{"a tenant removes the level", "", func() error { return patch(tenant, enforce, "null") }},
		{"an owner makes it privileged", "", func() error { return patch(owner, enforce, "privileged") }},
		{"a tenant writes other labels of it", "", func() error { return patch(tenant, "team", "b") }},
		{"a tenant deletes it", "", func() error {
			return tenant.CoreV1().Namespaces().Delete(t.Context(), "mine", metav1.DeleteOptions{})
		}},
		{"the namespace controller finalizes it", "", func() error {
			n, err := tenant.CoreV1().Namespaces().Get(t.Context(), "mine", metav1.GetOptions{})
			if err != nil {
				return err
			}
			n.Spec.Finalizers = nil
			_, err = tenant.CoreV1().Namespaces().Finalize(t.Context(), n, metav1.UpdateOptions{})
			return err
		}},
		{"control: without the policy a tenant sets what he likes", "", func() error {
			return without(t, admin, func(ctx context.Context) error {
				_, err := tenant.CoreV1().Namespaces().Create(ctx, namespace("free", map[string]string{"atoll.dev/network": "red"}),
					metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			}, "atoll-namespaces")
		}},
	}...)
	for _, step := range steps {
		t.Run(step.what, func(t *testing.T) { expect(t, step.do(), step.refusal) })
	}
}
