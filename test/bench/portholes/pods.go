package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// creators is how many pods are made at once.
const creators = 16

// label marks the pods of this benchmark.
const label = "atoll-bench=portholes"

// pod is a pod on a node.
type pod struct {
	// network is the number of its Network, or one of those below.
	network int
	name    string
	node    string
	// ports are those that it serves, where they must not be another pod's.
	ports int
}

// Pods outside of the Networks that are measured.
const (
	// inDefault is a pod of the default Network: all that others have but the porthole.
	inDefault = -1
	// onHost has its node's network, and no sandbox network at all.
	onHost = -2
)

// namespace is where the pod is made.
func (p pod) namespace() string {
	switch {
	case p.network == onHost:
		return metav1.NamespaceSystem // Elsewhere no pod may be on its node.
	case p.network < 0:
		return metav1.NamespaceDefault
	}
	return networkName(p.network)
}

// command is the pod's program, and port the one at which it is asked whether it is ready.
func (p pod) command() (argv []string, port int32) {
	argv, port = []string{matrix.Program, "serve"}, wire.HTTPPort
	if p.network == onHost {
		port = int32(p.ports)
		argv = append(argv, fmt.Sprintf("-http=%d", port), fmt.Sprintf("-port=%d", port+1), "-grpc=0", fmt.Sprintf("-socket=@%s", p.name))
	}
	return argv, port
}

// object is a pod whose readiness kubelet asks for over the network, by its face.
func (p pod) object() *corev1.Pod {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	grace, token, links := int64(1), false, false
	command, port := p.command()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: map[string]string{"atoll-bench": "portholes"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  &token,
			EnableServiceLinks:            &links,
			HostNetwork:                   p.network == onHost,
			NodeSelector:                  map[string]string{corev1.LabelHostname: p.node},
			Containers: []corev1.Container{{
				Name: "netprobe", Image: parts.NetprobeImage, ImagePullPolicy: corev1.PullNever,
				Command: command,
				Env: []corev1.EnvVar{
					field("POD_NAMESPACE", "metadata.namespace"), field("POD_NAME", "metadata.name"),
					field("POD_UID", "metadata.uid"), field("NODE_NAME", "spec.nodeName"),
				},
				ReadinessProbe: &corev1.Probe{
					ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: wire.ReadyPath, Port: intstr.FromInt32(port)}},
					PeriodSeconds: 5, TimeoutSeconds: 5,
				},
			}},
		},
	}
}

// arrival is how long pods took from when their creation was sent until they were seen Ready.
type arrival struct {
	// Pods are those that were Ready in time, Late the others.
	Pods int `json:"pods"`
	Late int `json:"late,omitempty"`
	// Seconds until the last was Ready.
	Seconds float64 `json:"seconds"`
	P50     float64 `json:"p50Seconds"`
	P99     float64 `json:"p99Seconds"`
	Others  float64 `json:"others"`
	// Programs is the processor time of each, in seconds.
	Programs map[string]float64 `json:"programs"`
}

// lateError: not all pods were Ready in time. What was measured until then is of use all the same.
type lateError struct {
	late   int
	within time.Duration
}

func (e *lateError) Error() string {
	return fmt.Sprintf("%d pods were not Ready after %s", e.late, e.within)
}

// way is how pods are made.
type way struct {
	// workers make one pod after the other.
	workers int
	// inTurn: a worker makes its next pod when the one before is Ready.
	inTurn bool
	// within is how long all may take.
	within time.Duration
}

// atOnce is how a drained node's pods come to others.
var atOnce = way{workers: creators, within: lab.Patience}

// apply makes pods and waits until all are Ready. With a lateError it says what came of those that were in time.
func (c *cluster) apply(ctx context.Context, pods []pod, how way) (out arrival, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, how.within, &lateError{})
	defer cancel()
	events, err := c.watchPods(ctx)
	if err != nil {
		return out, err
	}
	meter, err := lab.StartMeter(c.Families...)
	if err != nil {
		return out, err
	}
	began := time.Now()
	sent := make([]time.Time, len(pods))
	// seen are closed when their pods are Ready; missing are those that are not yet.
	seen, missing := map[string]chan struct{}{}, map[string]bool{}
	for _, p := range pods {
		seen[p.name], missing[p.name] = make(chan struct{}), true
	}
	made := make(chan error, 1)
	go func() { // ends with the last pod, or with ctx
		made <- lab.Load{Count: len(pods), Workers: how.workers}.Run(ctx, func(ctx context.Context, i int) error {
			sent[i] = time.Now()
			if _, err := c.Kube.CoreV1().Pods(pods[i].namespace()).Create(ctx, pods[i].object(), metav1.CreateOptions{}); err != nil {
				return err
			}
			if how.inTurn {
				select {
				case <-seen[pods[i].name]:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	}()
	ready, late, err := c.awaitReady(ctx, events, missing, seen)
	if err != nil {
		return out, err
	}
	if late != nil {
		late.within = how.within
	}
	if err := <-made; err != nil && late == nil {
		return out, fmt.Errorf("create pods: %w", err)
	}
	if out.Others, out.Programs, err = meter.Read(); err != nil {
		return out, err
	}
	var took []time.Duration
	for i, p := range pods {
		if missing[p.name] {
			continue
		}
		took = append(took, ready[p.name].Sub(sent[i]))
		out.Seconds = max(out.Seconds, ready[p.name].Sub(began).Seconds())
	}
	slices.Sort(took)
	out.Pods, out.Late = len(took), len(missing)
	if len(took) > 0 {
		out.P50, out.P99 = lab.Percentile(took, 50)/1000, lab.Percentile(took, 99)/1000
	}
	if late != nil {
		return out, late
	}
	return out, nil
}

// awaitReady waits until none is missing, says when each became Ready, and closes its channel of seen. When ctx ends by a
// lateError, it returns that one. It stops events.
func (c *cluster) awaitReady(
	ctx context.Context, events watch.Interface, missing map[string]bool, seen map[string]chan struct{},
) (ready map[string]time.Time, late *lateError, err error) {
	defer func() {
		if events != nil {
			events.Stop()
		}
	}()
	ready = map[string]time.Time{}
	for len(missing) > 0 {
		select {
		case e, open := <-events.ResultChan():
			if !open && ctx.Err() != nil {
				continue
			}
			if !open {
				// The API server ends the watch of who reads too slowly. A new one begins with all that is there.
				if events, err = c.watchPods(ctx); err != nil {
					return nil, nil, err
				}
				continue
			}
			if p, ok := e.Object.(*corev1.Pod); ok && missing[p.Name] && isReady(p) {
				ready[p.Name] = time.Now()
				delete(missing, p.Name)
				close(seen[p.Name])
			}
		case <-ctx.Done():
			if !errors.As(context.Cause(ctx), &late) {
				return nil, nil, fmt.Errorf("wait for pods: %d are not Ready: %w", len(missing), ctx.Err())
			}
			late.late = len(missing)
			return ready, late, nil
		}
	}
	return ready, nil, nil
}

func (c *cluster) watchPods(ctx context.Context) (watch.Interface, error) {
	events, err := c.Kube.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return events, nil
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// oneByOne makes pods that are the first of their Networks on a node, each when the one before is Ready, and then each
// a second one.
func (c *cluster) oneByOne(ctx context.Context, networks int, out *results) error {
	before, err := c.figures(ctx)
	if err != nil {
		return err
	}
	meter, err := lab.StartMeter(c.Families...)
	if err != nil {
		return err
	}
	for i := range 2 * networks {
		p := pod{network: i % networks, name: fmt.Sprintf("alone-%d", i), node: c.Box.Nodes()[0]}
		if _, err := c.apply(ctx, []pod{p}, atOnce); err != nil {
			return err
		}
	}
	if out.Alone.Others, err = meter.Others(); err != nil {
		return err
	}
	after, err := c.figures(ctx)
	if err != nil {
		return err
	}
	out.Alone.agents = readAgents(before, after)
	if err := c.deletePods(ctx, atOnce); err != nil {
		return err
	}
	return c.noPortholes(ctx)
}

// crowd is all pods at once, as many on each node, each Network on as many nodes as it has pods for.
func (c *cluster) crowd(o options) []pod {
	nodes := c.Box.Nodes()
	var pods []pod
	for j := range o.pods / o.networks {
		for n := range o.networks {
			pods = append(pods, pod{network: n, name: fmt.Sprintf("pod-%d-%d", n, j), node: nodes[(n+j)%len(nodes)]})
		}
	}
	return pods
}

// firstPort is the first port of pods that have their node's network; each has two.
const firstPort = 20000

// compare makes as many pods as burst, at once, which are in none of its Networks, and takes them away again.
func (c *cluster) compare(ctx context.Context, o options, network int) (arrival, error) {
	pods := c.crowd(o)
	for i := range pods {
		pods[i].network, pods[i].ports = network, firstPort+2*i
	}
	out, err := c.apply(ctx, pods, atOnce)
	if err != nil {
		return out, err
	}
	return out, c.deletePods(ctx, atOnce)
}

// turns makes the first pods of burst, no more at a time than there are nodes: what a porthole costs where not everything waits for a
// processor. It takes them away again in the same way.
func (c *cluster) turns(ctx context.Context, o options, empty map[string][]string, out *results) error {
	how := way{workers: len(c.Box.Nodes()), inTurn: true, within: lab.Patience}
	if err := c.fill(ctx, c.crowd(o)[:o.turns], how, &out.TurnsArrival, &out.Turns); err != nil {
		return err
	}
	c.progress.Done(fmt.Sprintf("%d pods Ready, 3 at a time", out.TurnsArrival.Pods))
	var err error
	out.TurnsRemoval, err = c.removeAll(ctx, empty, how)
	return err
}

// burst makes all pods at once.
func (c *cluster) burst(ctx context.Context, o options, out *results) error {
	flows, err := c.flows(ctx)
	if err != nil {
		return err
	}
	var late *lateError
	if err := c.fill(ctx, c.crowd(o), atOnce, &out.Arrival, &out.Burst); err != nil && !errors.As(err, &late) {
		return err
	}
	c.progress.Done(fmt.Sprintf("%d pods Ready", out.Arrival.Pods))
	all, err := c.flows(ctx)
	if err != nil {
		return err
	}
	out.FlowsPerPod = float64(all-flows) / float64(o.pods)
	portholes, err := c.portholes(ctx)
	if err != nil {
		return err
	}
	out.Portholes = portholes
	if late != nil {
		return late
	}
	return nil
}

// fill makes pods. With a lateError it says what came of those that were in time.
func (c *cluster) fill(ctx context.Context, pods []pod, how way, came *arrival, did *part) error {
	before, err := c.figures(ctx)
	if err != nil {
		return err
	}
	var late *lateError
	if *came, err = c.apply(ctx, pods, how); err != nil && !errors.As(err, &late) {
		return err
	}
	after, err := c.figures(ctx)
	if err != nil {
		return err
	}
	did.agents, did.Others = readAgents(before, after), came.Others
	if late != nil {
		return late
	}
	return nil
}

// deletePods deletes all pods of this benchmark and waits until none is left.
func (c *cluster) deletePods(ctx context.Context, how way) error {
	list, err := c.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	err = lab.Load{Count: len(list.Items), Workers: how.workers}.Run(ctx, func(ctx context.Context, i int) error {
		p := &list.Items[i]
		pods := c.Kube.CoreV1().Pods(p.Namespace)
		if err := pods.Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil || !how.inTurn {
			return err
		}
		return harness.Await(ctx, "a pod to go", func(ctx context.Context) (bool, error) {
			_, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return false, err
		})
	})
	if err != nil {
		return fmt.Errorf("delete pods: %w", err)
	}
	return harness.Await(ctx, "pods to go", func(ctx context.Context) (bool, error) {
		list, err := c.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: label, Limit: 1})
		if err != nil {
			return false, err
		}
		return len(list.Items) == 0, nil
	})
}
