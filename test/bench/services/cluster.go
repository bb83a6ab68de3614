package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// home is the Network that packets are measured in, and the namespace whose pods are in it.
const home = "bench-services"

// cluster is the sandbox.
type cluster struct {
	*harness.Cluster
	exec matrix.Exec
}

// inSandbox runs f in a sandbox with the Network that packets are measured in.
func inSandbox(ctx context.Context, o options, f func(*cluster) error) error {
	return o.sandbox.Run(ctx, func(sandbox *harness.Cluster) (err error) {
		c := &cluster{Cluster: sandbox}
		if c.exec, err = matrix.NewExec(c.Config, c.Kube); err != nil {
			return err
		}
		if err := c.makeHome(ctx); err != nil {
			return err
		}
		return f(c)
	})
}

// makeHome makes the Network and its namespace anew.
func (c *cluster) makeHome(ctx context.Context) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(
		lab.Network(home, v1alpha1.Subnet{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24"}}))
	if err != nil {
		return err
	}
	delete(object, "status")
	if _, err := c.Networks.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make Network: %w", err)
	}
	_, err = c.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: home, Labels: map[string]string{model.LabelNetwork: home},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make namespace: %w", err)
	}
	return harness.Await(ctx, "the namespace's ServiceAccount", func(ctx context.Context) (bool, error) {
		list, err := c.Kube.CoreV1().ServiceAccounts(home).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) > 0, err
	})
}

// template is a pod as its owner writes it: kubelet asks whether it is ready, and it stays for a moment when it is to go.
func template(app, node string) corev1.PodTemplateSpec {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(15)), AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{
				Name: "netprobe", Image: parts.NetprobeImage, ImagePullPolicy: corev1.PullNever,
				Command: []string{matrix.Program, "serve"},
				Env: []corev1.EnvVar{
					field("POD_NAMESPACE", "metadata.namespace"), field("POD_NAME", "metadata.name"),
					field("POD_UID", "metadata.uid"), field("NODE_NAME", "spec.nodeName"),
				},
				ReadinessProbe: &corev1.Probe{
					ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: wire.ReadyPath, Port: intstr.FromInt32(wire.HTTPPort)}},
					PeriodSeconds: 1, TimeoutSeconds: 5,
				},
				Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}},
			}},
		},
	}
	if node != "" {
		t.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	return t
}

// deploy makes a Deployment and a Service of its name, and waits until they serve. It returns the Service's address.
func (c *cluster) deploy(ctx context.Context, name, node string, replicas int32) (netip.Addr, error) {
	t := template(name, node)
	d, err := c.Kube.AppsV1().Deployments(home).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: t.Labels}, Template: t},
	}, metav1.CreateOptions{})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("make Deployment %s: %w", name, err)
	}
	service, err := c.Kube.CoreV1().Services(home).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Selector: t.Labels, Ports: []corev1.ServicePort{
			{Name: "tcp", Port: wire.DefaultPort},
			{Name: "udp", Port: wire.DefaultPort, Protocol: corev1.ProtocolUDP},
			{Name: "http", Port: wire.HTTPPort},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("make Service %s: %w", name, err)
	}
	if err := c.rolledOut(ctx, d); err != nil {
		return netip.Addr{}, err
	}
	return netip.ParseAddr(service.Spec.ClusterIP)
}

// rolledOut waits until all pods of a Deployment are of its template and ready, and no other is left.
func (c *cluster) rolledOut(ctx context.Context, d *appsv1.Deployment) error {
	return harness.Await(ctx, "Deployment "+d.Name, func(ctx context.Context) (bool, error) {
		now, err := c.Kube.AppsV1().Deployments(home).Get(ctx, d.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		s, want := now.Status, *now.Spec.Replicas
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != want || s.ReadyReplicas != want || s.Replicas != want {
			return false, nil
		}
		pods, err := c.pods(ctx, d.Name)
		return len(pods) == int(want), err
	})
}

func (c *cluster) pods(ctx context.Context, app string) ([]corev1.Pod, error) {
	list, err := c.Kube.CoreV1().Pods(home).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return list.Items, nil
}

// only is the one pod of an app.
func (c *cluster) only(ctx context.Context, app string) (*corev1.Pod, error) {
	pods, err := c.pods(ctx, app)
	if err != nil {
		return nil, err
	}
	if len(pods) != 1 {
		return nil, fmt.Errorf("%d pods of %s", len(pods), app)
	}
	return &pods[0], nil
}

// serves waits until a client is answered at an address.
func (c *cluster) serves(ctx context.Context, client string, at netip.AddrPort) error {
	return harness.Await(ctx, at.String(), func(ctx context.Context) (bool, error) {
		load, err := c.load(ctx, client, at, wire.LoadTCP, time.Millisecond)
		return load.Answers > 0, err
	})
}

// load has a pod ask.
func (c *cluster) load(
	ctx context.Context, client string, at netip.AddrPort, by wire.LoadBy, duration time.Duration, args ...string,
) (load wire.Load, err error) {
	command := slices.Concat([]string{matrix.Program, "load", "-at=" + at.String(), "-by=" + string(by), "-for=" + duration.String()}, args)
	out, err := c.exec(ctx, home, client, nil, command...)
	if err != nil {
		return load, err
	}
	if err := json.Unmarshal(out, &load); err != nil {
		return load, fmt.Errorf("read what %s says: %w", strings.Join(command, " "), err)
	}
	return load, nil
}
