// Package ready tells when what was applied to a cluster works: Networks Ready, Deployments and StatefulSets rolled out, every
// pod of theirs Ready. When it does not, it says of each thing what it waits for, and a pod's last Event.
//
// In flow the objects of some namespaces, out flows a Report; Wait repeats it until it is done.
package ready

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// lookEvery is how often Wait looks.
const lookEvery = 250 * time.Millisecond

// Clients reach one cluster.
type Clients struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
}

// NewClients makes clients that are not held back by a client's rate limit.
func NewClients(config *rest.Config) (Clients, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Clients{}, fmt.Errorf("make a client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return Clients{}, fmt.Errorf("make a client: %w", err)
	}
	return Clients{Kube: kube, Dynamic: dyn}, nil
}

// Objects are what a Report looks at.
type Objects struct {
	Networks     []v1alpha1.Network
	Deployments  []appsv1.Deployment
	StatefulSets []appsv1.StatefulSet
	Pods         []corev1.Pod
}

// Report is how far a cluster has come.
type Report struct {
	Networks, NetworksReady int
	// Pods counts those that Deployments and StatefulSets want, and those that nobody else made; PodsReady those that are Ready, of
	// the former those of the newest template.
	Pods, PodsReady int
	// Waiting names what is not ready and why, one line each.
	Waiting []string
	// unready are the pods to look up Events for, by line of Waiting.
	unready map[int]*corev1.Pod
}

// Done reports whether everything is ready.
func (r Report) Done() bool { return len(r.Waiting) == 0 && r.Networks > 0 && r.Pods > 0 }

// String is the report in one line.
func (r Report) String() string {
	s := fmt.Sprintf("Networks Ready %d of %d, pods Ready %d of %d", r.NetworksReady, r.Networks, r.PodsReady, r.Pods)
	if len(r.Waiting) > 0 {
		s += "; waiting for " + r.Waiting[0]
	}
	return s
}

// Judge makes a Report of objects.
func Judge(o Objects) Report {
	r := Report{Networks: len(o.Networks), unready: map[int]*corev1.Pod{}}
	for _, n := range o.Networks {
		if why := networkWaits(n); why != "" {
			r.Waiting = append(r.Waiting, fmt.Sprintf("Network %s: %s", n.Name, why))
			continue
		}
		r.NetworksReady++
	}
	for _, d := range o.Deployments {
		want := 1
		if d.Spec.Replicas != nil {
			want = int(*d.Spec.Replicas)
		}
		r.Pods += want
		r.PodsReady += min(want, int(d.Status.ReadyReplicas))
		if s := d.Status; s.ObservedGeneration < d.Generation || int(s.UpdatedReplicas) != want || int(s.ReadyReplicas) != want ||
			int(s.Replicas) != want {
			r.Waiting = append(r.Waiting,
				fmt.Sprintf("Deployment %s/%s: %d of %d pods Ready%s", d.Namespace, d.Name, s.ReadyReplicas, want, replicaFailure(d)))
		}
	}
	for _, d := range o.StatefulSets {
		want := 1
		if d.Spec.Replicas != nil {
			want = int(*d.Spec.Replicas)
		}
		r.Pods += want
		r.PodsReady += min(want, int(d.Status.ReadyReplicas))
		if s := d.Status; s.ObservedGeneration < d.Generation || int(s.UpdatedReplicas) != want || int(s.ReadyReplicas) != want ||
			int(s.Replicas) != want {
			r.Waiting = append(r.Waiting, fmt.Sprintf("StatefulSet %s/%s: %d of %d pods Ready", d.Namespace, d.Name, s.ReadyReplicas, want))
		}
	}
	for _, p := range o.Pods {
		why := podWaits(p)
		if metav1.GetControllerOf(&p) == nil {
			r.Pods++
			if why == "" {
				r.PodsReady++
			}
		}
		if why != "" {
			r.unready[len(r.Waiting)] = &p
			r.Waiting = append(r.Waiting, fmt.Sprintf("pod %s/%s: %s", p.Namespace, p.Name, why))
		}
	}
	return r
}

func networkWaits(n v1alpha1.Network) string {
	if n.Status.Phase == v1alpha1.NetworkReady && n.Status.ObservedGeneration == n.Generation {
		return ""
	}
	why := cmp.Or(string(n.Status.Phase), "no status yet")
	i := slices.IndexFunc(n.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == model.ConditionReady && c.Status != metav1.ConditionTrue
	})
	if i >= 0 {
		why += ", " + n.Status.Conditions[i].Reason + ": " + n.Status.Conditions[i].Message
	}
	return why
}

// replicaFailure says why a Deployment cannot even make its pods.
func replicaFailure(d appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return ", " + c.Message
		}
	}
	return ""
}

func podWaits(p corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return "ending"
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			return ""
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			return cmp.Or(c.Message, c.Reason)
		}
	}
	why := string(p.Status.Phase)
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Waiting != nil {
			why = s.State.Waiting.Reason
		}
	}
	if p.Spec.NodeName != "" {
		why += " on " + p.Spec.NodeName
	}
	return why
}

// Look reads the Networks by name and everything of the namespaces, and judges it.
func (c Clients) Look(ctx context.Context, networks, namespaces []string) (Report, error) {
	var o Objects
	for _, name := range networks {
		n, err := c.Network(ctx, name)
		if err != nil {
			return Report{}, err
		}
		o.Networks = append(o.Networks, n)
	}
	for _, ns := range namespaces {
		deployments, err := c.Kube.AppsV1().Deployments(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return Report{}, fmt.Errorf("list Deployments of %s: %w", ns, err)
		}
		o.Deployments = append(o.Deployments, deployments.Items...)
		sets, err := c.Kube.AppsV1().StatefulSets(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return Report{}, fmt.Errorf("list StatefulSets of %s: %w", ns, err)
		}
		o.StatefulSets = append(o.StatefulSets, sets.Items...)
		pods, err := c.Kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return Report{}, fmt.Errorf("list pods of %s: %w", ns, err)
		}
		o.Pods = append(o.Pods, pods.Items...)
	}
	return Judge(o), nil
}

// Network reads one Network.
func (c Clients) Network(ctx context.Context, name string) (v1alpha1.Network, error) {
	var n v1alpha1.Network
	object, err := c.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks")).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return n, fmt.Errorf("read Network %s: %w", name, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &n); err != nil {
		return n, fmt.Errorf("read Network %s: %w", name, err)
	}
	return n, nil
}

// Wait looks until everything is ready, and tells onReport each time. When ctx ends first, the error names
// what is not ready, with the last Event of each pod.
func (c Clients) Wait(ctx context.Context, networks, namespaces []string, onReport func(Report)) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var last Report
	var lastErr error
	for {
		report, err := c.Look(ctx, networks, namespaces)
		if err == nil {
			onReport(report)
			if report.Done() {
				return nil
			}
			last = report
		} else if ctx.Err() == nil {
			lastErr = err
		}
		select {
		case <-ctx.Done():
			return c.explain(last, lastErr)
		case <-tick.C:
		}
	}
}

// eventPatience is how long the last look for Events may take, after the time for waiting is over.
const eventPatience = 5 * time.Second

func (c Clients) explain(r Report, lastErr error) error {
	if r.Networks == 0 && lastErr != nil {
		return fmt.Errorf("look at the cluster: %w", lastErr)
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventPatience)
	defer cancel()
	lines := []string{fmt.Sprintf("not ready in time: Networks %d of %d, pods %d of %d", r.NetworksReady, r.Networks, r.PodsReady, r.Pods)}
	for i, line := range r.Waiting {
		lines = append(lines, "  "+line)
		if pod := r.unready[i]; pod != nil {
			lines = append(lines, "    last Event: "+c.LastEvent(ctx, pod))
		}
	}
	return errors.New(strings.Join(lines, "\n"))
}

// LastEvent is a pod's newest Event in words.
func (c Clients) LastEvent(ctx context.Context, pod *corev1.Pod) string {
	events, err := c.Kube.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID)})
	if err != nil {
		return err.Error()
	}
	if len(events.Items) == 0 {
		return "none"
	}
	newest := slices.MaxFunc(events.Items, func(a, b corev1.Event) int { return eventTime(a).Compare(eventTime(b)) })
	return newest.Reason + ": " + newest.Message
}

// eventTime is when an Event last happened; its three clocks are filled by different writers.
func eventTime(e corev1.Event) time.Time {
	newest := e.CreationTimestamp.Time
	for _, t := range []time.Time{e.EventTime.Time, e.LastTimestamp.Time} {
		if t.After(newest) {
			newest = t
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(newest) {
		newest = e.Series.LastObservedTime.Time
	}
	return newest
}
