//go:build e2e

package installed

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/tier"
)

// make churn sets these; without them it is a small one.
var (
	churnFor  = flag.Duration("duration", 40*time.Second, "how long TestChurn makes and removes pods")
	churnPods = flag.Int("pods", 12, "how many pods TestChurn keeps at a time")
	killEvery = flag.Duration("kill-every", 20*time.Second,
		"how often TestChurn kills a process of a member of the databases; 0 is never, and tells what is lost without")
)

const (
	churnNetworks = 4
	// churnApp is the label of pods that come and go.
	churnApp = "churn"
	// startWithin is how long a pod may take to start. One that waits for a quorum waits until killed members are started again: the
	// runtime's pause before that grows to minutes.
	startWithin = 6 * time.Minute
	// madeAtOnce is how many pods are made at a time, and startAtOnce how many wait for their start: more only wait for a processor,
	// and how long a start takes is then what the machine does in a second.
	madeAtOnce, startAtOnce = 3, 12
	// A pod lives for between leastLife and mostLife for each that there is: so as many come and go in a second whatever their number.
	leastLife, mostLife = 400 * time.Millisecond, 2 * time.Second
)

// TestChurn: pods of several Networks are made and removed all the time, while members of the databases are killed at random.
// Every pod starts; who asked all the time has lost nothing; and afterwards OVN has what the cluster's objects ask for, with the
// pods, and without them.
func TestChurn(t *testing.T) {
	seed := tier.Seed(t)
	t.Logf("-duration=%s -pods=%d -kill-every=%s", *churnFor, *churnPods, *killEvery)
	c := &churn{random: rand.New(rand.NewPCG(seed, 0)), started: map[string]time.Time{}, ends: map[string]time.Time{}}
	for n := range churnNetworks {
		name := fmt.Sprintf("churn-%d", n)
		// The same addresses in each.
		env.Network(t, name, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.77.0.0/20")}})
		env.Namespace(t, name, name)
	}
	asked, client := steady(t)
	losses := whileAsking(t, client, asked, func() {
		ctx, stop := context.WithTimeout(t.Context(), *churnFor)
		defer stop()
		var killing sync.WaitGroup
		if *killEvery > 0 {
			killing.Go(func() { killMembers(ctx, t, rand.New(rand.NewPCG(seed, 1))) })
		}
		c.run(ctx, t)
		killing.Wait()
		c.settle(t)
	})
	t.Logf("%d pods were made, %d were removed; the longest start took %s", c.made, c.removed, c.longest.Round(100*time.Millisecond))
	if c.made < *churnPods || c.removed == 0 {
		t.Errorf("%d pods were made, and %d removed", c.made, c.removed)
	}
	for _, l := range losses {
		t.Log(l)
		// What comes to a node, or goes from one, has its userspace switch forget the way to other nodes for a moment
		// (docs/design/networks.md): of datagrams to another node some may be lost by that, and nothing else.
		if l.Answers < 100 || l.broken > 0 || l.failed > 0 && l.name != farDatagrams {
			t.Errorf("%s: %v %+v", l, l.Errors, l.Failures)
		}
	}
	noDifferences(t)
	c.removeAll(t)
	noDifferences(t)
}

// farDatagrams is what is asked of another node by UDP.
const farDatagrams = "udp to another node"

// steady is what goes on being asked: of a pod on the client's node, and of one on another.
func steady(t *testing.T) ([]asking, *corev1.Pod) {
	t.Helper()
	nodes := env.Box.Nodes()
	// Beside hundreds of pods that start, one that requests nothing has hardly a processor: what is late then is the machine, and
	// not the network.
	const share = "100m"
	client := env.Pod(t, cluster.PodSpec{Namespace: "red", Name: "steady-client", Node: nodes[0], CPU: share})
	near := env.Pod(t, cluster.PodSpec{Namespace: "red", Name: "steady-near", Node: nodes[0], CPU: share})
	far := env.Pod(t, cluster.PodSpec{Namespace: "red", Name: "steady-far", Node: nodes[1], CPU: share})
	ready := env.WaitReady(t, client, near, far)
	var asked []asking
	for where, server := range map[string]*corev1.Pod{"its own node": ready[1], "another node": ready[2]} {
		env.Reach(t, ready[0], server)
		address := netip.MustParseAddr(cluster.OwnAddress(t, server))
		to := netip.AddrPortFrom(address, wire.DefaultPort)
		asked = append(asked,
			asking{name: "kept to " + where, way: wire.LoadHTTP, to: netip.AddrPortFrom(address, wire.HTTPPort), workers: 20, pause: time.Second},
			asking{name: "new to " + where, way: wire.LoadTCP, to: to, workers: 4, pause: 100 * time.Millisecond},
			asking{name: "udp to " + where, way: wire.LoadUDP, to: to, workers: 2, pause: 20 * time.Millisecond},
		)
	}
	return asked, ready[0]
}

// churn is the pods that come and go. All is done by one goroutine.
type churn struct {
	random        *rand.Rand
	made, removed int
	// started is when each pod was made that has not been seen ready, ends when each goes that was.
	started, ends map[string]time.Time
	longest       time.Duration
}

func (c *churn) run(ctx context.Context, t *testing.T) {
	t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.look(t)
		now := time.Now()
		for _, key := range slices.Sorted(maps.Keys(c.ends)) {
			if now.After(c.ends[key]) {
				c.remove(t, key)
			}
		}
		for range min(madeAtOnce, startAtOnce-len(c.started), *churnPods-len(c.started)-len(c.ends)) {
			c.make(t)
		}
	}
}

func (c *churn) make(t *testing.T) {
	t.Helper()
	namespace := fmt.Sprintf("churn-%d", c.random.IntN(churnNetworks))
	name := fmt.Sprintf("p-%d", c.made)
	spec := cluster.PodSpec{Namespace: namespace, Name: name, App: churnApp, Node: env.Box.Nodes()[c.random.IntN(len(env.Box.Nodes()))]}
	if _, err := env.Clients.Kube.CoreV1().Pods(namespace).Create(t.Context(), spec.Object(), metav1.CreateOptions{}); err != nil {
		t.Errorf("make pod %s/%s: %v", namespace, name, err)
		return
	}
	c.made++
	c.started[namespace+"/"+name] = time.Now()
}

func (c *churn) remove(t *testing.T, key string) {
	t.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	if err := env.Clients.Kube.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("remove pod %s: %v", key, err)
	}
	delete(c.ends, key)
	c.removed++
}

// look takes what is ready from those that start, and lets it live for a while.
func (c *churn) look(t *testing.T) {
	t.Helper()
	list, err := env.Clients.Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + churnApp})
	if err != nil {
		t.Errorf("list pods: %v", err)
		return
	}
	for i := range list.Items {
		p := &list.Items[i]
		key := p.Namespace + "/" + p.Name
		since, starts := c.started[key]
		switch {
		case !starts:
		case cluster.IsReady(p):
			c.longest = max(c.longest, time.Since(since))
			delete(c.started, key)
			c.ends[key] = time.Now().Add(time.Duration(*churnPods) * (leastLife + time.Duration(c.random.Int64N(int64(mostLife-leastLife)))))
		case p.Status.Phase == corev1.PodFailed || time.Since(since) > startWithin:
			t.Errorf("pod %s does not start: it is %s after %s", key, p.Status.Phase, time.Since(since).Round(time.Second))
			delete(c.started, key)
			c.ends[key] = time.Now()
		}
	}
}

// settle waits until every member serves, and every pod that was made has started.
func (c *churn) settle(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, startWithin, "every pod that waited has started", func(context.Context) error {
		c.look(t)
		if len(c.started) > 0 {
			return fmt.Errorf("not ready: %s", strings.Join(slices.Sorted(maps.Keys(c.started)), " "))
		}
		return nil
	})
	cluster.Eventually(t, startWithin, "every member is back", func(ctx context.Context) error {
		list, err := env.Clients.Kube.CoreV1().Pods(system).List(ctx, metav1.ListOptions{LabelSelector: central})
		if err == nil && slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return !cluster.IsReady(&p) }) {
			err = errors.New("not all are ready")
		}
		return err
	})
}

func (c *churn) removeAll(t *testing.T) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(c.ends)) {
		c.remove(t, key)
	}
	cluster.Eventually(t, cluster.ReadyWithin, "all pods are gone", func(ctx context.Context) error {
		list, err := env.Clients.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: "app=" + churnApp})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d pods", len(list.Items))
		}
		return err
	})
}

// central selects the pods of the databases' members.
const central = "app.kubernetes.io/name=atoll-ovn-central"

// killMembers kills one process of one member after another, without waiting for what was killed before.
func killMembers(ctx context.Context, t *testing.T, random *rand.Rand) {
	tick := time.NewTicker(*killEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		list, err := env.Clients.Kube.CoreV1().Pods(system).List(ctx, metav1.ListOptions{LabelSelector: central})
		if ctx.Err() != nil {
			return
		}
		if err != nil || len(list.Items) == 0 {
			t.Errorf("find members: %d, %v", len(list.Items), err)
			return
		}
		p := &list.Items[random.IntN(len(list.Items))]
		container := []string{"nb", "sb", "northd"}[random.IntN(3)]
		out, err := env.Box.Exec(ctx, p.Spec.NodeName, "ctr", "--namespace", "k8s.io", "task",
			"kill", "--signal", "SIGKILL", cluster.ContainerOf(p, container))
		// One that was killed a moment ago is not there to be killed.
		t.Logf("%s: kill %s of %s: %v %s", time.Now().Format(time.TimeOnly), container, p.Spec.NodeName, err, strings.TrimSpace(string(out)))
	}
}

// noDifferences has atoll check look, by a member's own socket of the northbound database.
func noDifferences(t *testing.T) {
	t.Helper()
	atoll := filepath.Join(filepath.Dir(env.Options.Program), "atoll")
	cluster.Eventually(t, cluster.ReadyWithin, "atoll check finds no difference", func(ctx context.Context) error {
		list, err := env.Clients.Kube.CoreV1().Pods(system).List(ctx, metav1.ListOptions{LabelSelector: central})
		if err != nil {
			return err
		}
		var errs []error
		for i := range list.Items {
			p := &list.Items[i]
			// The first process of the member's container has the socket in its own tree.
			out, err := env.Box.Exec(ctx, p.Spec.NodeName, "sh", "-c",
				"ctr --namespace k8s.io task ls | awk -v id="+cluster.ContainerOf(p, "nb")+" '$1 == id { print $2 }'")
			if err != nil {
				return fmt.Errorf("find the member on %s: %w", p.Spec.NodeName, err)
			}
			told, err := env.Program(ctx, "node", "exec", p.Spec.NodeName, "--", atoll, "check", "--kubeconfig="+env.Box.Kubeconfig(),
				"--nb-address=unix:/proc/"+strings.TrimSpace(string(out))+"/root/run/ovn/ovnnb_db.sock", "--timeout=40s").CombinedOutput()
			if err == nil {
				t.Logf("atoll check: %s", strings.TrimSpace(string(told)))
				return nil
			}
			errs = append(errs, fmt.Errorf("%s: %w\n%s", p.Spec.NodeName, err, told))
		}
		return errors.Join(errs...)
	})
}
