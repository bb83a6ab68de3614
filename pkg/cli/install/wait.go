package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// lookEvery is how often it is looked whether what is waited for has come.
const lookEvery = 500 * time.Millisecond

// longestReason cuts what others say short.
const longestReason = 160

// errRefused ends a wait at once: waiting longer does not help.
var errRefused = errors.New("refused")

var (
	podKind        = schema.GroupKind{Kind: "Pod"}
	nodeKind       = schema.GroupKind{Kind: "Node"}
	daemonSetKind  = schema.GroupKind{Group: "apps", Kind: "DaemonSet"}
	deploymentKind = schema.GroupKind{Group: "apps", Kind: "Deployment"}
)

// Steps shows a person what is done.
type Steps interface {
	// Do runs a step, and returns its error.
	Do(title string, step func() error) error
	// Note says what the running step is at.
	Note(format string, args ...any)
}

// until calls look until nothing is missing. look returns what is missing, or nothing; it is shown whenever it changes. An error
// of look counts as missing, too, unless it is errRefused. When ctx ends, the error has what was missing last.
func until(ctx context.Context, steps Steps, look func() (missing string, err error)) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for said := ""; ; {
		missing, err := look()
		if errors.Is(err, errRefused) {
			return err
		}
		if err != nil {
			missing = err.Error()
		}
		if missing == "" {
			return nil
		}
		// What the end of the context broke off says nothing.
		if ctx.Err() == nil && missing != said {
			steps.Note("%s", missing)
			said = missing
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %s", ctx.Err(), said)
		case <-ticker.C:
		}
	}
}

// waitEstablished waits until the server serves the kinds that are defined among the objects.
func (c *Cluster) waitEstablished(ctx context.Context, steps Steps, objects []*unstructured.Unstructured) error {
	return until(ctx, steps, func() (string, error) {
		for _, o := range objects {
			if !isKind(o, crds.Group, crds.Kind) {
				continue
			}
			now, err := c.get(ctx, crds, "", o.GetName())
			if err != nil {
				return "", err
			}
			if now == nil || !conditionTrue(now, "Established") {
				return o.GetName() + " is not established", nil
			}
		}
		c.mapper.Reset()
		return "", nil
	})
}

// conditionTrue reports whether an object has a condition that is true.
func conditionTrue(o *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(one any) bool {
		condition, _ := one.(map[string]any)
		return condition["type"] == kind && condition["status"] == "True"
	})
}

// waitRolledOut waits until a workload's pods are of its current template, and ready. It does not wait for minReadySeconds, which
// a rollout keeps between two pods.
func (c *Cluster) waitRolledOut(ctx context.Context, steps Steps, o *unstructured.Unstructured) error {
	gk := o.GroupVersionKind().GroupKind()
	return until(ctx, steps, func() (string, error) {
		now, err := c.get(ctx, gk, o.GetNamespace(), o.GetName())
		if err != nil {
			return "", err
		}
		if now == nil {
			return "", fmt.Errorf("%w: somebody has deleted %s", errRefused, nameOf(o))
		}
		done, count, selector, err := rolledOut(now)
		if err != nil || done {
			return "", err
		}
		pods, err := listAs[corev1.Pod](ctx, c, podKind, o.GetNamespace(), selector)
		if err != nil {
			return "", err
		}
		if why := whyNotReady(pods); why != "" {
			return count + "; " + why, nil
		}
		return count, nil
	})
}

// rolledOut reads the status of a workload: whether all is done, how far it is, and which pods are its own.
func rolledOut(o *unstructured.Unstructured) (done bool, count, selector string, err error) {
	tell := func(current bool, updated, ready, want int32, s *metav1.LabelSelector) (bool, string, string, error) {
		chosen := metav1.FormatLabelSelector(s)
		if !current {
			return false, "its controller has not seen it yet", chosen, nil
		}
		count := fmt.Sprintf("%d of %d ready", min(ready, want), want)
		if updated < want {
			count = fmt.Sprintf("%d of %d new, %s", updated, want, count)
		}
		return updated >= want && ready >= want, count, chosen, nil
	}
	convert := runtime.DefaultUnstructuredConverter
	switch o.GetKind() {
	case "DaemonSet":
		var d appsv1.DaemonSet
		if err := convert.FromUnstructured(o.Object, &d); err != nil {
			return false, "", "", fmt.Errorf("read %s: %w", nameOf(o), err)
		}
		s := d.Status
		return tell(s.ObservedGeneration >= d.Generation, s.UpdatedNumberScheduled, s.NumberReady, s.DesiredNumberScheduled, d.Spec.Selector)
	case "StatefulSet":
		var d appsv1.StatefulSet
		if err := convert.FromUnstructured(o.Object, &d); err != nil {
			return false, "", "", fmt.Errorf("read %s: %w", nameOf(o), err)
		}
		s := d.Status
		return tell(s.ObservedGeneration >= d.Generation, s.UpdatedReplicas, s.ReadyReplicas, replicas(d.Spec.Replicas), d.Spec.Selector)
	}
	var d appsv1.Deployment
	if err := convert.FromUnstructured(o.Object, &d); err != nil {
		return false, "", "", fmt.Errorf("read %s: %w", nameOf(o), err)
	}
	s, want := d.Status, replicas(d.Spec.Replicas)
	// A replica of the last template that is still there counts as ready.
	return tell(s.ObservedGeneration >= d.Generation && s.Replicas <= max(want, s.UpdatedReplicas), s.UpdatedReplicas, s.ReadyReplicas, want,
		d.Spec.Selector)
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// whyNotReady says of the first pod that is not ready what it waits for.
func whyNotReady(pods []corev1.Pod) string {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			return p.Name + " ends"
		}
		if why := podWaits(&p); why != "" {
			if p.Spec.NodeName != "" {
				return p.Name + " on " + p.Spec.NodeName + ": " + why
			}
			return p.Name + ": " + why
		}
	}
	return ""
}

// podWaits is what a pod waits for; empty when it is ready.
func podWaits(p *corev1.Pod) string {
	for _, c := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
		// What it waits for now may only be the next try; why the last one ended tells more.
		if last := c.LastTerminationState.Terminated; last != nil && !c.Ready && last.Message != "" {
			return c.Name + " ended: " + lastWords(last.Message)
		}
		if w := c.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			return c.Name + " waits: " + short(strings.TrimSpace(w.Reason+" "+w.Message))
		}
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("%s ended with status %d: %s", c.Name, t.ExitCode, lastWords(t.Message))
		}
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReady} {
		for _, c := range p.Status.Conditions {
			if c.Type == kind && c.Status != corev1.ConditionTrue {
				return short(strings.TrimSpace(c.Reason + " " + c.Message))
			}
		}
	}
	return ""
}

// lastWords is the last line of what a program has printed, or the beginning of that line: a log comes before the error.
func lastWords(text string) string {
	text = strings.TrimSpace(text)
	return short(text[strings.LastIndex(text, "\n")+1:])
}

// short is the first line of a text, or its beginning.
func short(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > longestReason {
		return strings.ToValidUTF8(line[:longestReason], "") + "…"
	}
	return line
}

// waitNodes waits until all nodes whose kubelet answers are Ready.
func (c *Cluster) waitNodes(ctx context.Context, steps Steps) error {
	return until(ctx, steps, func() (string, error) {
		nodes, err := listAs[corev1.Node](ctx, c, nodeKind, "", "")
		if err != nil {
			return "", err
		}
		missing, first := 0, ""
		for _, n := range nodes {
			for _, condition := range n.Status.Conditions {
				// Unknown: its kubelet is silent, which no installation changes.
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionFalse {
					if missing++; first == "" {
						first = n.Name + ": " + short(condition.Message)
					}
				}
			}
		}
		if missing == 0 {
			return "", nil
		}
		return fmt.Sprintf("%d of %d ready; %s", len(nodes)-missing, len(nodes), first), nil
	})
}
