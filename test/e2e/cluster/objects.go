package cluster

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/wait"
)

// Subnet is a subnet of one range.
func Subnet(name, cidr string) v1alpha1.Subnet {
	return v1alpha1.Subnet{Name: name, CIDRs: []v1alpha1.CIDR{v1alpha1.CIDR(cidr)}}
}

// Network makes a Network, of type vpc unless it says otherwise, which is deleted when the test ends.
func (c *Cluster) Network(t *testing.T, name string, spec v1alpha1.NetworkSpec) {
	t.Helper()
	if spec.Type == "" {
		spec.Type = v1alpha1.NetworkVPC
	}
	n := &v1alpha1.Network{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Network"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       spec,
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
	if err != nil {
		t.Fatal(err)
	}
	delete(object, "status")
	networks := c.Clients.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks"))
	Eventually(t, ReadyWithin, "make Network "+name, func(ctx context.Context) error {
		// One that an earlier run left has to go first.
		_, err := networks.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() { c.DeleteNetwork(t, name) })
}

// DeleteNetwork deletes a Network; that it is gone already is no error.
func (c *Cluster) DeleteNetwork(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := AfterTest()
	defer cancel()
	networks := c.Clients.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks"))
	if err := networks.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("delete Network %s: %v", name, err)
	}
}

// ChangeNetwork changes the spec of a Network.
func (c *Cluster) ChangeNetwork(t *testing.T, name string, change func(*v1alpha1.NetworkSpec)) {
	t.Helper()
	Eventually(t, Patience, "change Network "+name, func(ctx context.Context) error {
		return c.TryChangeNetwork(ctx, name, change)
	})
}

// TryChangeNetwork is ChangeNetwork, once.
func (c *Cluster) TryChangeNetwork(ctx context.Context, name string, change func(*v1alpha1.NetworkSpec)) error {
	n, err := c.Clients.Network(ctx, name)
	if err != nil {
		return err
	}
	change(&n.Spec)
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&n)
	if err != nil {
		return err
	}
	_, err = c.Clients.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks")).Update(ctx,
		&unstructured.Unstructured{Object: object}, metav1.UpdateOptions{})
	return err
}

// AfterTest is a context for cleaning up, when the test's own has ended. It ends when the machine has given a minute.
func AfterTest() (context.Context, context.CancelFunc) { return wait.AfterTest(time.Minute) }

// Namespace makes a namespace whose pods join a Network (none if empty), ready for pods. It is deleted when the
// test ends.
func (c *Cluster) Namespace(t *testing.T, name, network string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if network != "" {
		ns.Labels[model.LabelNetwork] = network
	}
	Eventually(t, Patience, "make namespace "+name, func(ctx context.Context) error {
		// One that an earlier run left has to go first.
		_, err := c.Clients.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() {
		ctx, cancel := AfterTest()
		defer cancel()
		if err := c.Clients.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete namespace %s: %v", name, err)
		}
	})
	Eventually(t, Patience, "default ServiceAccount of "+name, func(ctx context.Context) error {
		_, err := c.Clients.Kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// Service makes a Service for the pods of a namespace with the label app of its name. It goes with its namespace.
func (c *Cluster) Service(t *testing.T, namespace, name string, spec corev1.ServiceSpec) *corev1.Service {
	t.Helper()
	spec.Selector = map[string]string{"app": name}
	object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	service, err := c.Clients.Kube.CoreV1().Services(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make Service %s/%s: %v", namespace, name, err)
	}
	return service
}

// As is a client that acts as a user without the administrator's groups.
func (c *Cluster) As(t *testing.T, user string) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.configOf(user))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// DynamicAs is As for objects of any kind.
func (c *Cluster) DynamicAs(t *testing.T, user string) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.configOf(user))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// configOf is how a user reaches the API server, whose warnings are for people.
func (c *Cluster) configOf(user string) *rest.Config {
	config := rest.CopyConfig(c.Config)
	config.Impersonate.UserName = user
	config.WarningHandler = rest.NoWarnings{}
	return config
}

// MayList lets the pods of a namespace list each other.
func (c *Cluster) MayList(t *testing.T, namespace string) {
	t.Helper()
	_, err := c.Clients.Kube.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "see-pods"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Clients.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "see-pods"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "default"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "see-pods"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
