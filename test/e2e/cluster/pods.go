package cluster

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/matrix"
)

// PodSpec is what tests choose of a pod.
type PodSpec struct {
	Namespace, Name string
	// Node is where it has to run; empty means anywhere.
	Node string
	// NICs is the annotation atoll.dev/nics.
	NICs string
	// Network is the pod's own label, App that by which a Service finds it.
	Network, App string
	// CPU is what the pod requests, such as 100m; empty means nothing, which is hardly anything where others want more.
	CPU         string
	Annotations map[string]string
}

// Object is a pod that runs netprobe.
func (s PodSpec) Object() *corev1.Pod {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	grace, token := int64(1), false
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: map[string]string{}, Annotations: map[string]string{}},
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
				// Asked until it serves, and not for as long as it lives: each exec costs containerd tens of milliseconds, and there are hundreds of
				// pods. A pod with a ReadinessProbe of its own has no need of it.
				StartupProbe: &corev1.Probe{
					ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{matrix.Program, "ready"}}},
					PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: 300,
				},
			}},
		},
	}
	if s.Node != "" {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: s.Node}
	}
	if s.CPU != "" {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(s.CPU)}
	}
	if s.Network != "" {
		p.Labels[model.LabelNetwork] = s.Network
	}
	if s.App != "" {
		p.Labels["app"] = s.App
	}
	maps.Copy(p.Annotations, s.Annotations)
	if s.NICs != "" {
		p.Annotations[model.AnnotationNICs] = s.NICs
	}
	return p
}

// OnHost is a pod of its node's own network that serves.
func OnHost(namespace, name, node string) *corev1.Pod {
	object := PodSpec{Namespace: namespace, Name: name, Node: node}.Object()
	object.Spec.HostNetwork = true
	return object
}

// Pod makes a pod, which is deleted when the test ends.
func (c *Cluster) Pod(t *testing.T, s PodSpec) *corev1.Pod {
	t.Helper()
	return c.Make(t, s.Object())
}

// Make makes a pod as it is written, which is deleted when the test ends. For one on its node's own network the namespace is made
// privileged, and stays so: other pods of the namespace are not held to baseline then, and Networks that admit it are isolated
// softly.
func (c *Cluster) Make(t *testing.T, object *corev1.Pod) *corev1.Pod {
	t.Helper()
	var p *corev1.Pod
	create := func(ctx context.Context) (err error) {
		p, err = c.Clients.Kube.CoreV1().Pods(object.Namespace).Create(ctx, object, metav1.CreateOptions{})
		return err
	}
	if object.Spec.HostNetwork {
		c.takeNode(t, object.Spec.NodeSelector[corev1.LabelHostname])
	}
	if object.Spec.HostNetwork && object.Namespace != metav1.NamespaceSystem {
		c.Kubectl(t, "label", "--overwrite", "namespace", object.Namespace, "pod-security.kubernetes.io/enforce=privileged")
		// The API server learns of it some time later.
		Eventually(t, Patience, "pod "+object.Name+" is admitted", create)
	} else if err := create(t.Context()); err != nil {
		t.Fatalf("make pod %s/%s: %v", object.Namespace, object.Name, err)
	}
	t.Cleanup(func() { c.DeletePod(t, p) })
	return p
}

// takeNode waits until no other test has a pod on a node's own network, where all would listen on the same ports. A test that has
// such pods on several nodes makes them in the order of the nodes' names.
func (c *Cluster) takeNode(t *testing.T, node string) {
	turn, _ := c.turns.LoadOrStore(node, make(chan struct{}, 1))
	select {
	case turn.(chan struct{}) <- struct{}{}:
		t.Cleanup(func() { <-turn.(chan struct{}) })
	case <-t.Context().Done():
	}
}

// Get is a pod as it is now.
func (c *Cluster) Get(t *testing.T, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	now, err := c.Clients.Kube.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// DeletePod deletes a pod; that it is gone already is no error.
func (c *Cluster) DeletePod(t *testing.T, p *corev1.Pod) {
	t.Helper()
	ctx, cancel := AfterTest()
	defer cancel()
	err := c.Clients.Kube.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		t.Errorf("delete pod %s/%s: %v", p.Namespace, p.Name, err)
	}
}

// AttachmentOf is the first interface of a pod as the controller decided it.
func AttachmentOf(t *testing.T, p *corev1.Pod) model.Attachment {
	t.Helper()
	var attachments []model.Attachment
	if err := json.Unmarshal([]byte(p.Annotations[model.AnnotationAttachments]), &attachments); err != nil || len(attachments) == 0 {
		t.Fatalf("%s/%s has attachments %q: %v", p.Namespace, p.Name, p.Annotations[model.AnnotationAttachments], err)
	}
	return attachments[0]
}

// OwnAddress is a pod's address in its Network.
func OwnAddress(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	a, err := matrix.AddressOf(p)
	if err != nil {
		t.Fatal(err)
	}
	return a.String()
}

// AddressesOfPod are a pod's own addresses in its Network.
func AddressesOfPod(t *testing.T, p *corev1.Pod) []netip.Addr {
	t.Helper()
	var out []netip.Addr
	for _, a := range AttachmentOf(t, p).Addresses {
		out = append(out, a.Addr())
	}
	return out
}

// HostPID is the process id of a pod's container as its node counts.
func (c *Cluster) HostPID(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
	out, err := c.Box.Exec(t.Context(), p.Spec.NodeName, "ctr", "--namespace", "k8s.io", "task", "ls")
	if err != nil {
		t.Fatalf("list containers of %s: %v\n%s", p.Spec.NodeName, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == id {
			return fields[1]
		}
	}
	t.Fatalf("container %s is not on %s:\n%s", id, p.Spec.NodeName, out)
	return ""
}
