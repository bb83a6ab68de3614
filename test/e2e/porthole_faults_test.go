//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/tier"
)

// TestKillAgentDuringStart kills a node's agent again and again while many pods of two Networks with the same addresses
// start on it. Then kubelet's probes of all of them run every second, and it is killed again: no pod notices. At last all
// pods go, and with them everything that was made for them. In make test-all there are more pods, and it is killed more often.
func TestKillAgentDuringStart(t *testing.T) {
	const node = "n1"
	// One of each Network for each kind of probe.
	each, starting, running, going := 4, 2, 2, 1
	if tier.All() {
		each, starting, running, going = 6, 3, 4, 2
	}
	agent := cluster.Daemon{Place: node, Name: "atoll-agent"}
	var pods []*corev1.Pod
	for _, ns := range []string{"rush-a", "rush-b"} {
		env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}}}})
		env.Namespace(t, ns, ns)
	}
	var killing sync.WaitGroup
	defer killing.Wait()
	kills := func(times int) {
		for range times {
			if err := env.KillOnce(t.Context(), agent); err != nil && t.Context().Err() == nil {
				t.Errorf("kill %s: %v", agent, err)
			}
		}
	}
	killing.Go(func() { kills(starting) })
	kinds := []string{"exec", "http", "tcp", "grpc"}
	for i := range each {
		for _, ns := range []string{"rush-a", "rush-b"} {
			object := cluster.PodSpec{Namespace: ns, Name: fmt.Sprintf("p%d", i), Node: node, NICs: fmt.Sprintf(`[{"ip":"10.0.0.6%d"}]`, i)}.Object()
			container := &object.Spec.Containers[0]
			container.StartupProbe, container.ReadinessProbe = nil, quick(handlers()[kinds[i%len(kinds)]])
			container.LivenessProbe = quick(handlers()[kinds[(i+1)%len(kinds)]])
			pods = append(pods, env.Make(t, object))
		}
	}
	killing.Wait()
	pods = env.WaitReady(t, pods...)
	env.checkNodes(t)
	checkFaces(t, pods)

	since := readySince(t, pods)
	kills(running)
	if diff := cmp.Diff(since, readySince(t, pods)); diff != "" {
		t.Errorf("probes failed while the agent was away (-before +after):\n%s", diff)
	}
	checkFaces(t, pods)
	for i := range each {
		env.Reach(t, pods[2*i], pods[(2*i+2)%len(pods)])
	}
	killing.Go(func() { kills(going) })
	for _, p := range pods {
		env.DeletePod(t, p)
	}
	killing.Wait()
	env.WaitGone(t, pods...)
	env.checkNodes(t)
}

// readySince is since when each pod is Ready, and how often it was started.
func readySince(t *testing.T, pods []*corev1.Pod) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range pods {
		now := env.Get(t, p)
		for _, c := range now.Status.Conditions {
			if c.Type == corev1.PodReady {
				out[p.Namespace+"/"+p.Name] = fmt.Sprintf("%s since %s, %d restarts", c.Status, c.LastTransitionTime,
					now.Status.ContainerStatuses[0].RestartCount)
			}
		}
	}
	return out
}

// checkFaces: each pod answers at its faces, asked from every node.
func checkFaces(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		for _, ip := range p.Status.PodIPs {
			face := netip.MustParseAddr(ip.IP)
			for _, from := range env.Box.Nodes() {
				answers(t, "tcp", from, netip.AddrPortFrom(face, wire.DefaultPort), string(p.UID))
			}
		}
	}
}

// exampleNow are the example's pods as they are.
func exampleNow(t *testing.T) []*corev1.Pod {
	t.Helper()
	list, err := env.Clients.Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods
}
