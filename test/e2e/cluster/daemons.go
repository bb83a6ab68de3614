package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/wait"
)

// System is the namespace that Atoll is installed in.
const System = "atoll-system"

// Daemon is one program of the cluster that may be killed at any moment: one of Atoll's or OVN's, in a pod, or one of
// Kubernetes', which the sandbox runs itself. Place is a node, or sandbox.Central for a program that is not one per node.
type Daemon struct{ Place, Name string }

func (d Daemon) String() string { return d.Name + " of " + d.Place }

// container is where a program runs.
type container struct {
	// workload is the name of the Deployment or DaemonSet, which is also its pods' label app.kubernetes.io/name.
	workload, name string
	// alone says that the pod has no other program.
	alone bool
}

// containers are where Atoll's and OVN's programs run, by the names that tests give them.
var containers = map[string]container{
	"atoll-controller": {"atoll-controller", "controller", true},
	"atoll-inspect":    {"atoll-inspect", "inspect", true},
	"atoll-agent":      {"atoll-agent", "agent", true},
	"atoll-dns":        {"atoll-dns", "dns", true},
	"ovsdb-server":     {"atoll-ovn-node", "ovsdb-server", false},
	"ovs-vswitchd":     {"atoll-ovn-node", "ovs-vswitchd", false},
	"ovn-controller":   {"atoll-ovn-node", "ovn-controller", false},
	"ovn-nb":           {"atoll-ovn-central", "nb", false},
	"ovn-sb":           {"atoll-ovn-central", "sb", false},
	"ovn-northd":       {"atoll-ovn-central", "northd", false},
}

// Kill kills d and waits until its successor serves.
func (c *Cluster) Kill(t *testing.T, d Daemon) {
	t.Helper()
	if err := c.KillOnce(wait.Context(t, backWithin), d); err != nil {
		t.Fatalf("kill %s: %v", d, err)
	}
}

// backWithin is how much of the machine's time a program that was killed may take until it serves again.
const backWithin = time.Minute

// KillOnce is Kill for those who go on after a failure.
func (c *Cluster) KillOnce(ctx context.Context, d Daemon) error {
	in, isPod := containers[d.Name]
	if !isPod {
		return c.killProcess(ctx, d)
	}
	pods, err := c.PodsOf(ctx, d)
	if err != nil {
		return err
	}
	for i := range pods {
		if err := c.EndContainer(ctx, &pods[i], in.name, syscall.SIGKILL); err != nil {
			return err
		}
	}
	return poll(ctx, func(ctx context.Context) error {
		now, err := c.PodsOf(ctx, d)
		if err != nil {
			return err
		}
		for i := range now {
			was := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.UID == now[i].UID })
			if was >= 0 && ContainerOf(&pods[was], in.name) == ContainerOf(&now[i], in.name) {
				return fmt.Errorf("container %s of %s has not been started again", in.name, now[i].Name)
			}
			if !containerReady(&now[i], in.name) {
				return fmt.Errorf("container %s of %s is not ready", in.name, now[i].Name)
			}
		}
		return nil
	})
}

// killProcess kills one of the sandbox's own daemons, and waits until it serves again.
func (c *Cluster) killProcess(ctx context.Context, d Daemon) error {
	before, err := c.process(ctx, d)
	if err != nil {
		return err
	}
	if err := c.Box.Signal(ctx, d.Place, d.Name, syscall.SIGKILL); err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) error {
		now, err := c.process(ctx, d)
		if err == nil && (!now.Ready || now.Restarts <= before.Restarts) {
			err = fmt.Errorf("it has not come back: %+v", now)
		}
		return err
	})
}

// poll looks until a check passes. The error is the last one of the check.
func poll(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(LookEvery)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}

// PodsOf lists the pods in which d runs: one, or for a program of the control plane each replica. There is at least one.
func (c *Cluster) PodsOf(ctx context.Context, d Daemon) ([]corev1.Pod, error) {
	pods, err := c.podsOf(ctx, d)
	if err == nil && len(pods) == 0 {
		err = fmt.Errorf("find %s: it has no pod", d)
	}
	return pods, err
}

func (c *Cluster) podsOf(ctx context.Context, d Daemon) ([]corev1.Pod, error) {
	options := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + containers[d.Name].workload}
	if d.Place != sandbox.Central {
		options.FieldSelector = "spec.nodeName=" + d.Place
	}
	list, err := c.Clients.Kube.CoreV1().Pods(System).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", d, err)
	}
	return list.Items, nil
}

// EndContainer sends a signal, such as SIGKILL, to the first process of a pod's container, by the node's container runtime.
func (c *Cluster) EndContainer(ctx context.Context, p *corev1.Pod, name string, signal syscall.Signal) error {
	id := ContainerOf(p, name)
	out, err := c.Box.Exec(ctx, p.Spec.NodeName, "ctr", "--namespace", "k8s.io", "task", "kill", "--signal", fmt.Sprint(int(signal)), id)
	if err != nil {
		return fmt.Errorf("end container %s of %s: %w\n%s", name, p.Name, err, out)
	}
	return nil
}

// ContainerOf is the id of a pod's container, as containerd knows it.
func ContainerOf(p *corev1.Pod, name string) string {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == name {
			return strings.TrimPrefix(s.ContainerID, "containerd://")
		}
	}
	return ""
}

func containerReady(p *corev1.Pod, name string) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name && s.Ready })
}

// WaitServes waits until every pod of d is ready.
func (c *Cluster) WaitServes(t *testing.T, d Daemon) {
	t.Helper()
	Eventually(t, Patience, d.String()+" serves", func(ctx context.Context) error {
		pods, err := c.PodsOf(ctx, d)
		if err != nil {
			return err
		}
		for i := range pods {
			if pods[i].DeletionTimestamp != nil || !IsReady(&pods[i]) {
				return fmt.Errorf("pod %s is not ready", pods[i].Name)
			}
		}
		return nil
	})
}

// Stop takes d away, and returns what brings it back. That happens once: when it is called, or when the test ends.
//
// A program that has its pod to itself goes with its pod: the Deployment gets no replicas, the DaemonSet spares the node. Of
// a program that shares its pod, the process that keeps it is frozen, and the program killed: nothing starts it again. One
// of the sandbox's own daemons is stopped by its place.
func (c *Cluster) Stop(t *testing.T, d Daemon) (start func()) {
	t.Helper()
	change := c.freeze
	switch in, isPod := containers[d.Name]; {
	case !isPod:
		change = c.stopProcess
	case in.alone:
		change = c.withdraw
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	back, err := change(ctx, d)
	start = sync.OnceFunc(func() {
		ctx, cancel := AfterTest()
		defer cancel()
		if back == nil {
			return
		}
		if err := back(ctx); err != nil {
			t.Errorf("start %s again: %v", d, err)
		}
	})
	t.Cleanup(start)
	if err != nil {
		t.Fatalf("stop %s: %v", d, err)
	}
	return start
}

// stopProcess stops one of the sandbox's own daemons.
func (c *Cluster) stopProcess(ctx context.Context, d Daemon) (back func(context.Context) error, err error) {
	back = func(ctx context.Context) error { return c.Box.Start(ctx, d.Place, d.Name) }
	return back, c.Box.Stop(ctx, d.Place, d.Name)
}

// freeze stops the first process of d's container, which keeps the program and answers probes, and kills the program.
func (c *Cluster) freeze(ctx context.Context, d Daemon) (back func(context.Context) error, err error) {
	pods, err := c.PodsOf(ctx, d)
	if err != nil {
		return nil, err
	}
	signal := func(ctx context.Context, p *corev1.Pod, script string) error {
		const find = `pid=$(ctr --namespace k8s.io task ls | awk -v id="$1" '$1 == id { print $2 }'); test -n "$pid" || exit 1; `
		out, err := c.Box.Exec(ctx, p.Spec.NodeName, "sh", "-c", find+script, "sh", ContainerOf(p, containers[d.Name].name))
		if err != nil {
			err = fmt.Errorf("signal %s on %s: %w\n%s", d.Name, p.Spec.NodeName, err, out)
		}
		return err
	}
	back = func(ctx context.Context) error {
		var errs []error
		for i := range pods {
			errs = append(errs, signal(ctx, &pods[i], `kill -CONT "$pid"`))
		}
		return errors.Join(errs...)
	}
	for i := range pods {
		if err := signal(ctx, &pods[i], `kill -STOP "$pid" && pkill -KILL -P "$pid"`); err != nil {
			return back, err
		}
	}
	return back, nil
}

// withdraw takes d's pods away by what the workload asks for, and waits until they are gone.
func (c *Cluster) withdraw(ctx context.Context, d Daemon) (back func(context.Context) error, err error) {
	if d.Place == sandbox.Central {
		back, err = c.scaleToNone(ctx, containers[d.Name].workload)
	} else {
		back = func(ctx context.Context) error { return c.spare(ctx, d, false) }
		err = c.spare(ctx, d, true)
	}
	if err != nil {
		return back, err
	}
	return back, poll(ctx, func(ctx context.Context) error {
		pods, err := c.podsOf(ctx, d)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("pod %s is still there", pods[0].Name)
		}
		return err
	})
}

func (c *Cluster) scaleToNone(ctx context.Context, name string) (back func(context.Context) error, err error) {
	deployments := c.Clients.Kube.AppsV1().Deployments(System)
	was, err := deployments.GetScale(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read replicas of %s: %w", name, err)
	}
	set := func(ctx context.Context, replicas int32) error {
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
		if _, err := deployments.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("scale %s: %w", name, err)
		}
		return nil
	}
	return func(ctx context.Context) error { return set(ctx, was.Spec.Replicas) }, set(ctx, 0)
}

// spare has a DaemonSet leave out d's node, or take it again. Pods of other nodes stay as they are: the strategy OnDelete
// replaces none, and when no node is left out the pods' template is the one that they were made from.
func (c *Cluster) spare(ctx context.Context, d Daemon, out bool) error {
	c.sparing.Lock()
	defer c.sparing.Unlock()
	name := containers[d.Name].workload
	var nodes []string
	for _, other := range c.spared[name] {
		if other != d.Place {
			nodes = append(nodes, other)
		}
	}
	if out {
		nodes = append(nodes, d.Place)
	}
	strategy, affinity := any(map[string]any{"type": appsv1.OnDeleteDaemonSetStrategyType, "rollingUpdate": nil}), any(nil)
	if len(nodes) == 0 {
		strategy = c.strategies[name]
	} else {
		if _, known := c.strategies[name]; !known {
			set, err := c.Clients.Kube.AppsV1().DaemonSets(System).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("read DaemonSet %s: %w", name, err)
			}
			c.strategies[name] = set.Spec.UpdateStrategy
		}
		affinity = map[string]any{"nodeAffinity": corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: nodes},
			}}},
		}}}
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"updateStrategy": strategy,
		"template":       map[string]any{"spec": map[string]any{"affinity": affinity}},
	}})
	if err != nil {
		return fmt.Errorf("write patch: %w", err)
	}
	if _, err := c.Clients.Kube.AppsV1().DaemonSets(System).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("change DaemonSet %s: %w", name, err)
	}
	c.spared[name] = nodes
	return nil
}

// process is one of the sandbox's own daemons, as its place tells of it.
func (c *Cluster) process(ctx context.Context, d Daemon) (sandbox.Daemon, error) {
	daemons, err := c.Box.Daemons(ctx, d.Place)
	if err != nil {
		return sandbox.Daemon{}, err
	}
	i := slices.IndexFunc(daemons, func(have sandbox.Daemon) bool { return have.Name == d.Name })
	if i < 0 {
		return sandbox.Daemon{}, fmt.Errorf("there is no %s", d)
	}
	return daemons[i], nil
}
