//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/demo/ready"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/tier"
	"github.com/atoll-net/atoll/test/wait"
)

// mortal are the daemons whose death the tests try.
func mortal() []cluster.Daemon {
	daemons := []cluster.Daemon{
		{Place: sandbox.Central, Name: "atoll-controller"},
		{Place: sandbox.Central, Name: "ovn-northd"},
	}
	for _, node := range env.Box.Nodes() {
		daemons = append(daemons, cluster.Daemon{Place: node, Name: "atoll-agent"}, cluster.Daemon{Place: node, Name: "ovn-controller"})
	}
	return daemons
}

// recoverWithin is how long the matrix may be wrong after a fault.
const recoverWithin = 90 * time.Second

// TestKillWhileIdle kills all daemons at once, in make test-all one by one before: the rows, the pods and who reaches whom stay
// as they were.
func TestKillWhileIdle(t *testing.T) {
	rows := env.settled(t)
	pods := examplePods(t)
	if tier.All() {
		for _, d := range mortal() {
			env.Kill(t, d)
		}
		env.waitRows(t, cluster.Patience, rows)
	}
	var killing sync.WaitGroup
	for _, d := range mortal() {
		killing.Go(func() {
			if err := env.KillOnce(t.Context(), d); err != nil {
				t.Errorf("kill %s: %v", d, err)
			}
		})
	}
	killing.Wait()
	env.waitRows(t, cluster.Patience, rows)
	env.checkMatrix(t, recoverWithin)
	if diff := cmp.Diff(pods, examplePods(t)); diff != "" {
		t.Errorf("pods have changed (-before +after):\n%s", diff)
	}
	env.waitRows(t, time.Second, rows)
	env.checkNodes(t)
}

// TestKillVSwitch kills the databases and switches of one node, whose pods keep running.
func TestKillVSwitch(t *testing.T) {
	rows := env.settled(t)
	pods := examplePods(t)
	for _, name := range []string{"ovs-vswitchd", "ovsdb-server"} {
		env.Kill(t, cluster.Daemon{Place: "n2", Name: name})
		env.checkMatrix(t, recoverWithin)
	}
	if diff := cmp.Diff(pods, examplePods(t)); diff != "" {
		t.Errorf("pods have changed (-before +after):\n%s", diff)
	}
	env.waitRows(t, time.Second, rows)
	env.checkNodes(t)
	checkFaces(t, exampleNow(t))
}

// TestKillDatabases kills what Atoll itself depends on. Each time pods go on running and new ones start.
func TestKillDatabases(t *testing.T) {
	rows := env.settled(t)
	pods := examplePods(t)
	env.Network(t, "phoenix", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, "phoenix", "phoenix")
	for _, name := range []string{"ovn-nb", "ovn-sb", "kube-apiserver", "etcd"} {
		env.Kill(t, cluster.Daemon{Place: sandbox.Central, Name: name})
		spec := cluster.PodSpec{Namespace: "phoenix", Name: "after-" + name}
		cluster.Eventually(t, cluster.Patience, "make a pod after "+name+" was killed", func(ctx context.Context) error {
			_, err := env.Clients.Kube.CoreV1().Pods(spec.Namespace).Create(ctx, spec.Object(), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
		env.WaitReady(t, spec.Object())
	}
	env.checkMatrix(t, recoverWithin)
	if diff := cmp.Diff(pods, examplePods(t)); diff != "" {
		t.Errorf("pods have changed (-before +after):\n%s", diff)
	}
	env.waitRows(t, cluster.Patience, rows)
}

// TestKillDuringRollout replaces all pods of both Networks while everything is killed again and again.
func TestKillDuringRollout(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var killing sync.WaitGroup
	defer killing.Wait()
	restart(t)
	killing.Go(func() {
		// Each is killed as soon as it serves again after the round before.
		for range 2 {
			for _, d := range mortal() {
				if ctx.Err() != nil {
					return
				}
				if err := env.KillOnce(ctx, d); err != nil && ctx.Err() == nil {
					t.Errorf("kill %s: %v", d, err)
				}
			}
		}
	})
	if err := env.Clients.Wait(wait.Context(t, 4*time.Minute), []string{"red", "blue"}, []string{"red", "blue"},
		func(ready.Report) {}); err != nil {
		t.Fatal(err)
	}
	killing.Wait()
	env.checkMatrix(t, recoverWithin)
	checkPortsArePods(t)
	env.checkNodes(t)
	checkFaces(t, exampleNow(t))
	env.checkReach(t, recoverWithin)
}

// TestStoppedController: what happens while the controller is down is done when it is back.
func TestStoppedController(t *testing.T) {
	start := env.Stop(t, cluster.Daemon{Place: sandbox.Central, Name: "atoll-controller"})
	before := examplePods(t)
	list, err := env.Clients.Kube.CoreV1().Pods("red").List(t.Context(), metav1.ListOptions{LabelSelector: "app=db"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		env.DeletePod(t, &p)
	}
	cluster.Eventually(t, cluster.Patience, "the old pods gone and new ones made", func(context.Context) error {
		now := examplePods(t)
		for _, p := range list.Items {
			if _, there := now[string(p.UID)]; there {
				return fmt.Errorf("%s is still there", p.Name)
			}
		}
		if len(now) != len(before) {
			return fmt.Errorf("%d pods, want %d", len(now), len(before))
		}
		return nil
	})
	start()
	if err := env.Clients.Wait(wait.Context(t, cluster.ReadyWithin), []string{"red", "blue"}, []string{"red", "blue"},
		func(ready.Report) {}); err != nil {
		t.Fatal(err)
	}
	env.checkMatrix(t, recoverWithin)
	checkPortsArePods(t)
}

// examplePods are the containers' restarts of the example's pods, by UID.
func examplePods(t *testing.T) map[string]string {
	t.Helper()
	list, err := env.Clients.Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]string{}
	for _, p := range list.Items {
		restarts := int32(0)
		for _, s := range p.Status.ContainerStatuses {
			restarts += s.RestartCount
		}
		pods[string(p.UID)] = fmt.Sprintf("%s/%s on %s, %d restarts", p.Namespace, p.Name, p.Spec.NodeName, restarts)
	}
	return pods
}

// restart begins a rollout of the whole example.
func restart(t *testing.T) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"restarted":%q}}}}}`, time.Now().Format(time.RFC3339Nano))
	for _, ns := range []string{"red", "blue"} {
		for _, name := range []string{"web", "db"} {
			if _, err := env.Clients.Kube.AppsV1().StatefulSets(ns).Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch),
				metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := env.Clients.Kube.AppsV1().Deployments(ns).Patch(t.Context(), "same", types.StrategicMergePatchType, []byte(patch),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// checkPortsArePods: the pods that hold a port are those that exist and are not of the node's own network.
func checkPortsArePods(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, cluster.Patience, "one port for each pod", func(ctx context.Context) error {
		list, err := env.Clients.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		want := map[string]bool{}
		for _, p := range list.Items {
			if !p.Spec.HostNetwork && p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				want[p.Namespace+"/"+p.Name] = true
			}
		}
		got := map[string]bool{}
		for _, name := range env.NB.PodPorts(t) {
			got[name] = true
		}
		if !maps.Equal(want, got) {
			return fmt.Errorf("difference (-pods +ports):\n%s", cmp.Diff(want, got))
		}
		return nil
	})
}
