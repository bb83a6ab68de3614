//go:build e2e

package e2e

import (
	"context"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/test/matrix"
)

// subnet is a subnet of one range.
func subnet(name, cidr string) v1alpha1.Subnet {
	return v1alpha1.Subnet{Name: name, CIDRs: []v1alpha1.CIDR{v1alpha1.CIDR(cidr)}}
}

// network makes a vpc Network, which is deleted when the test ends.
func (c *cluster) network(t *testing.T, name string, spec v1alpha1.NetworkSpec) {
	t.Helper()
	spec.Type = v1alpha1.NetworkVPC
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
	networks := c.clients.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks"))
	eventually(t, readyWithin, "make Network "+name, func(ctx context.Context) error {
		// One that an earlier run left has to go first.
		_, err := networks.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() { c.deleteNetwork(t, name) })
}

// deleteNetwork deletes a Network; that it is gone already is no error.
func (c *cluster) deleteNetwork(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := afterTest()
	defer cancel()
	networks := c.clients.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks"))
	if err := networks.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("delete Network %s: %v", name, err)
	}
}

// changeNetwork changes the spec of a Network.
func (c *cluster) changeNetwork(t *testing.T, name string, change func(*v1alpha1.NetworkSpec)) {
	t.Helper()
	networks := c.clients.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks"))
	eventually(t, patience, "change Network "+name, func(ctx context.Context) error {
		n, err := c.clients.Network(ctx, name)
		if err != nil {
			return err
		}
		change(&n.Spec)
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&n)
		if err != nil {
			return err
		}
		_, err = networks.Update(ctx, &unstructured.Unstructured{Object: object}, metav1.UpdateOptions{})
		return err
	})
}

// afterTest is a context for cleaning up, when the test's own has ended.
func afterTest() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

// namespace makes a namespace whose pods join a Network (none if empty), ready for pods. It is deleted when the
// test ends.
func (c *cluster) namespace(t *testing.T, name, network string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if network != "" {
		ns.Labels[model.LabelNetwork] = network
	}
	eventually(t, patience, "make namespace "+name, func(ctx context.Context) error {
		// One that an earlier run left has to go first.
		_, err := c.clients.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() {
		ctx, cancel := afterTest()
		defer cancel()
		if err := c.clients.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete namespace %s: %v", name, err)
		}
	})
	eventually(t, patience, "default ServiceAccount of "+name, func(ctx context.Context) error {
		_, err := c.clients.Kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// podSpec is what tests choose of a pod.
type podSpec struct {
	namespace, name string
	// node is where it has to run; empty means anywhere.
	node string
	// nics is the annotation atoll.dev/nics.
	nics string
	// network is the pod's own label, app that by which a Service finds it.
	network, app string
	annotations  map[string]string
}

// object is a pod that runs netprobe.
func (s podSpec) object() *corev1.Pod {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	grace, token := int64(1), false
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  &token,
			Containers: []corev1.Container{{
				Name: "netprobe", Image: "atoll.dev/netprobe:sandbox", ImagePullPolicy: corev1.PullNever,
				Command: []string{matrix.Program, "serve"},
				Env: []corev1.EnvVar{
					field("POD_NAMESPACE", "metadata.namespace"), field("POD_NAME", "metadata.name"),
					field("POD_UID", "metadata.uid"), field("NODE_NAME", "spec.nodeName"),
				},
				ReadinessProbe: &corev1.Probe{
					ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{matrix.Program, "ready"}}},
					PeriodSeconds: 2, TimeoutSeconds: 5,
				},
			}},
		},
	}
	if s.node != "" {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: s.node}
	}
	if s.network != "" {
		p.Labels[model.LabelNetwork] = s.network
	}
	if s.app != "" {
		p.Labels["app"] = s.app
	}
	maps.Copy(p.Annotations, s.annotations)
	if s.nics != "" {
		p.Annotations[model.AnnotationNICs] = s.nics
	}
	return p
}

// pod makes a pod, which is deleted when the test ends.
func (c *cluster) pod(t *testing.T, s podSpec) *corev1.Pod {
	t.Helper()
	return c.make(t, s.object())
}

// make makes a pod as it is written, which is deleted when the test ends.
func (c *cluster) make(t *testing.T, object *corev1.Pod) *corev1.Pod {
	t.Helper()
	p, err := c.clients.Kube.CoreV1().Pods(object.Namespace).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make pod %s/%s: %v", object.Namespace, object.Name, err)
	}
	t.Cleanup(func() { c.deletePod(t, p) })
	return p
}

// get is a pod as it is now.
func (c *cluster) get(t *testing.T, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	now, err := c.clients.Kube.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// service makes a Service for the pods of a namespace with the label app of its name. It goes with its namespace.
func (c *cluster) service(t *testing.T, namespace, name string, spec corev1.ServiceSpec) *corev1.Service {
	t.Helper()
	spec.Selector = map[string]string{"app": name}
	object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	service, err := c.clients.Kube.CoreV1().Services(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make Service %s/%s: %v", namespace, name, err)
	}
	return service
}

// deletePod deletes a pod; that it is gone already is no error.
func (c *cluster) deletePod(t *testing.T, p *corev1.Pod) {
	t.Helper()
	ctx, cancel := afterTest()
	defer cancel()
	err := c.clients.Kube.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		t.Errorf("delete pod %s/%s: %v", p.Namespace, p.Name, err)
	}
}

// as is a client that acts as a user without the administrator's groups.
func (c *cluster) as(t *testing.T, user string) kubernetes.Interface {
	t.Helper()
	config := *c.config
	config.Impersonate.UserName = user
	client, err := kubernetes.NewForConfig(&config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
