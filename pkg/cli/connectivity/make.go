package connectivity

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// lookEvery is how often it is looked whether what is waited for has come.
const lookEvery = 500 * time.Millisecond

// longestReason cuts what others say short.
const longestReason = 200

// until repeats a look until nothing is missing, and prints what is missing whenever that changes. When ctx ends, missing is what
// was missing last.
func until(ctx context.Context, steps Steps, look func() (missing string, err error)) (missing string, err error) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for said := ""; ; {
		now, err := look()
		if err != nil && ctx.Err() == nil {
			return "", err
		}
		if err == nil {
			if missing = now; missing == "" {
				return "", nil
			}
		}
		if ctx.Err() == nil && missing != said {
			steps.Note("%s", missing)
			said = missing
		}
		select {
		case <-ctx.Done():
			if missing == "" {
				return "", ctx.Err()
			}
			return missing, nil
		case <-ticker.C:
		}
	}
}

// make creates all that the test needs.
func (t *test) make(ctx context.Context) error {
	c := t.cluster
	for _, network := range networks(t.options.CIDR) {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(network)
		if err != nil {
			return err
		}
		// An empty status would be refused.
		delete(object, "status")
		if _, err := c.dynamic.Resource(networkResource).Create(ctx, &unstructured.Unstructured{Object: object},
			metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create Network %s: %w", network.Name, err)
		}
	}
	for _, namespace := range namespaces() {
		if _, err := c.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create namespace %s: %w", namespace.Name, err)
		}
	}
	for _, service := range services() {
		made, err := c.kube.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create Service %s/%s: %w", service.Namespace, service.Name, err)
		}
		t.scene.addService(made)
	}
	api, err := c.kube.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read Service kubernetes: %w", err)
	}
	t.scene.api, _ = netip.ParseAddr(api.Spec.ClusterIP)
	for _, p := range plan(t.options.CIDR, t.scene.nodes) {
		if t.scene.noPlain != "" && (p.namespace == plain || p.namespace == infra) {
			continue
		}
		if err := t.makePod(ctx, p); err != nil {
			return err
		}
		t.scene.pods = append(t.scene.pods, p)
	}
	return nil
}

// addService takes over what the API server has given a Service.
func (s *scene) addService(made *corev1.Service) {
	address, _ := netip.ParseAddr(made.Spec.ClusterIP)
	switch made.Namespace + "/" + made.Name {
	case prefix + blue + "/" + web:
		s.blueWeb = address
	case prefix + red + "/" + web:
		s.redWeb, s.nodePort = address, int(made.Spec.Ports[0].NodePort)
	}
}

// makePod creates a pod once its namespace has a ServiceAccount, which comes a moment after it.
func (t *test) makePod(ctx context.Context, p pod) error {
	missing, err := until(ctx, t.steps, func() (string, error) {
		_, err := t.cluster.kube.CoreV1().Pods(prefix+p.namespace).Create(ctx, p.object(t.image), metav1.CreateOptions{})
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "serviceaccount") {
			return err.Error(), nil
		}
		return "", err
	})
	if err == nil && missing != "" {
		err = errors.New(missing)
	}
	if err != nil {
		return fmt.Errorf("create pod %s: %w", p.podName, err)
	}
	return nil
}

// wait waits until all pods are Ready, or ctx ends: what is missing then is in the scene.
func (t *test) wait(ctx context.Context) error {
	began := time.Now()
	_, err := until(ctx, t.steps, func() (string, error) {
		missing := ""
		for i := range t.scene.pods {
			p := &t.scene.pods[i]
			if p.ready {
				continue
			}
			now, err := t.cluster.kube.CoreV1().Pods(prefix+p.namespace).Get(ctx, p.name, metav1.GetOptions{})
			if err != nil {
				return "", fmt.Errorf("read pod %s: %w", p.podName, err)
			}
			if p.see(now); p.ready {
				p.took = time.Since(began)
			} else if missing == "" {
				missing = fmt.Sprintf("pod %s: %s", p.podName, p.why)
			}
		}
		return missing, nil
	})
	if err != nil {
		return err
	}
	// Events say why. They are read only when something is missing, with a time of their own.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin/4)
	defer cancel()
	for i := range t.scene.pods {
		if p := &t.scene.pods[i]; !p.ready {
			p.took = time.Since(began)
			p.why = strings.TrimSuffix(p.why+": "+t.cluster.warning(after, p.podName), ": ")
		}
	}
	return nil
}

// see takes over what the API server tells of a pod.
func (p *pod) see(now *corev1.Pod) {
	p.uid, p.face, p.why = string(now.UID), netip.Addr{}, "it does not start"
	for _, one := range now.Status.PodIPs {
		if a, err := netip.ParseAddr(one.IP); err == nil && a.Is4() {
			p.face = a
		}
	}
	if p.namespace == plain || p.namespace == infra {
		p.address = p.face
	}
	for _, c := range now.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady:
			p.ready = c.Status == corev1.ConditionTrue
		case c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue:
			p.why = short(c.Reason + " " + c.Message)
		}
	}
	for _, c := range now.Status.ContainerStatuses {
		p.running = c.State.Running != nil
		switch {
		case p.running:
			p.why = "its container runs, and the kubelet's probe does not find it"
		case c.State.Waiting != nil:
			p.why = short(c.State.Waiting.Reason + " " + c.State.Waiting.Message)
		case c.State.Terminated != nil:
			p.why = short(fmt.Sprintf("its container ended with status %d %s", c.State.Terminated.ExitCode, c.State.Terminated.Message))
		}
	}
}

// warning is the newest warning about a pod; empty if there is none, or nobody tells.
func (c *Cluster) warning(ctx context.Context, p podName) string {
	list, err := c.kube.CoreV1().Events(prefix+p.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + p.name + ",type=Warning",
	})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	newest := slices.MaxFunc(list.Items, func(a, b corev1.Event) int { return happened(a).Compare(happened(b)) })
	return short(newest.Reason + " " + newest.Message)
}

func happened(e corev1.Event) time.Time {
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}

// short is the first line of a text, or its beginning.
func short(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > longestReason {
		return strings.ToValidUTF8(line[:longestReason], "") + "…"
	}
	return line
}

// apply creates a policy.
func (c *Cluster) apply(ctx context.Context, policy *networkingv1.NetworkPolicy) error {
	if _, err := c.kube.NetworkingV1().NetworkPolicies(policy.Namespace).Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create policy %s: %w", policy.Name, err)
	}
	return nil
}

// remove deletes everything that this test or an earlier one has created, and waits until it is gone. It only deletes what has
// both the test's label and one of its names.
func (c *Cluster) remove(ctx context.Context, steps Steps) error {
	var left []string
	missing, err := until(ctx, steps, func() (string, error) {
		spaces, err := c.removeNamespaces(ctx)
		if err != nil {
			return "", err
		}
		networks, err := c.removeNetworks(ctx)
		if err != nil {
			return "", err
		}
		if left = slices.Concat(spaces, networks); len(left) == 0 {
			return "", nil
		}
		return fmt.Sprintf("%d namespaces and %d Networks are still there", len(spaces), len(networks)), nil
	})
	if err == nil && missing != "" {
		err = fmt.Errorf("there is still %s. Next: atoll connectivity clean", strings.Join(left, ", "))
	}
	return err
}

// ownOnly selects what has the test's label.
var ownOnly = metav1.ListOptions{LabelSelector: ownLabel + "=" + ownLabelValue}

// removeNamespaces deletes the test's namespaces, and returns those that are still there.
func (c *Cluster) removeNamespaces(ctx context.Context) (left []string, err error) {
	found, err := c.kube.CoreV1().Namespaces().List(ctx, ownOnly)
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	for _, one := range found.Items {
		if !slices.ContainsFunc(namespaces(), func(n *corev1.Namespace) bool { return n.Name == one.Name }) {
			continue
		}
		left = append(left, "namespace "+one.Name+whyThere(one))
		if one.DeletionTimestamp != nil {
			continue
		}
		if err := c.kube.CoreV1().Namespaces().Delete(ctx, one.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("delete namespace %s: %w", one.Name, err)
		}
	}
	return left, nil
}

// removeNetworks deletes the test's Networks, and returns those that are still there: they wait for their pods.
func (c *Cluster) removeNetworks(ctx context.Context) (left []string, err error) {
	found, err := c.dynamic.Resource(networkResource).List(ctx, ownOnly)
	if err != nil {
		return nil, fmt.Errorf("list Networks: %w", err)
	}
	for _, one := range found.Items {
		if one.GetName() != prefix+red && one.GetName() != prefix+blue {
			continue
		}
		left = append(left, "Network "+one.GetName())
		if one.GetDeletionTimestamp() != nil {
			continue
		}
		if err := c.dynamic.Resource(networkResource).Delete(ctx, one.GetName(), metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("delete Network %s: %w", one.GetName(), err)
		}
	}
	return left, nil
}

// whyThere says what a namespace that is being deleted waits for.
func whyThere(n corev1.Namespace) string {
	for _, c := range n.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Reason != "" && n.DeletionTimestamp != nil {
			return " (" + short(c.Message) + ")"
		}
	}
	return ""
}
