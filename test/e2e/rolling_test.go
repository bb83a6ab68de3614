//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// TestRollingRestart: while all pods of a Deployment are replaced, no client of its Service sees an error, whether it connects
// each time or keeps its connection. One that sends UDP from one port all the time is led to the next pod while its own still
// serves, and loses at most what is under way at that moment.
//
// Few wait until a packet is sent again: the sandbox has the userspace datapath, which loses some between nodes as pods come and
// go (docs/design/networks.md). TestNothingIsLostWhilePodsComeAndGo is of what loses none.
//
// It runs alone: it counts packets, and what other tests do to the nodes' routes and processors would be counted, too.
func TestRollingRestart(t *testing.T) {
	const ns = "rolling"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, ns, ns)
	service := env.Service(t, ns, "web", corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: "tcp", Port: 80, TargetPort: intstr.FromString("echo")},
		{Name: "udp", Port: 80, TargetPort: intstr.FromString("echo-udp"), Protocol: corev1.ProtocolUDP},
		{Name: "http", Port: 8000, TargetPort: intstr.FromInt32(wire.HTTPPort)},
	}})
	template := cluster.PodSpec{Namespace: ns, Name: "web", App: "web"}.Object()
	container := &template.Spec.Containers[0]
	container.Ports = []corev1.ContainerPort{
		{Name: "echo", ContainerPort: wire.DefaultPort}, {Name: "echo-udp", ContainerPort: wire.DefaultPort, Protocol: corev1.ProtocolUDP},
	}
	container.StartupProbe, container.ReadinessProbe = nil, quick(handlers()["http"])
	container.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 4}}}
	grace, replicas := int64(10), int32(3)
	template.Spec.TerminationGracePeriodSeconds = &grace
	deployments := env.Clients.Kube.AppsV1().Deployments(ns)
	deployment, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "client", Node: "n1"}))[0]
	env.waitRollout(t, deployment)
	before := env.podsOf(t, ns, "web")
	address := netip.MustParseAddr(service.Spec.ClusterIP)
	for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP} {
		cluster.Eventually(t, cluster.Patience, "the Service answers by "+string(protocol), func(ctx context.Context) error {
			target := wire.Target{Address: address, Protocol: protocol, Port: 80, Token: cluster.NewToken(t)}
			results, err := matrix.Probe(ctx, env.Exec, ns, client.Name, []wire.Target{target})
			if err == nil && !results[target.Token].Answered {
				err = fmt.Errorf("%+v", results[target.Token])
			}
			return err
		})
	}

	loads := map[wire.LoadBy]wire.Load{}
	var mu sync.Mutex
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithTimeout(t.Context(), loadWithin+time.Minute)
	defer stop()
	attended, leave := context.WithCancel(ctx)
	defer leave()
	for by, port := range map[wire.LoadBy]uint16{wire.LoadTCP: 80, wire.LoadUDP: 80, wire.LoadHTTP: 8000} {
		stdin, end := io.Pipe()
		context.AfterFunc(attended, func() { end.Close() })
		running.Go(func() {
			out, err := env.Exec(ctx, ns, client.Name, stdin, matrix.Program, "load", "-by="+string(by), "-workers=2", "-pause=10ms",
				"-until-eof", "-for="+loadWithin.String(), "-at="+netip.AddrPortFrom(address, port).String())
			var load wire.Load
			if err == nil {
				err = json.Unmarshal(out, &load)
			}
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			loads[by] = load
			mu.Unlock()
		})
	}
	began := time.Now()
	restart := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"restarted":%q}}}}}`, began.Format(time.RFC3339Nano))
	if deployment, err = deployments.Patch(ctx, "web", types.StrategicMergePatchType, restart, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	env.waitRollout(t, deployment)
	after := env.podsOf(t, ns, "web")
	env.WaitGone(t, before...)
	<-time.After(afterwards)
	leave()
	running.Wait()
	for by, load := range loads {
		lost := load.Late
		for _, n := range load.Errors {
			lost += n
		}
		t.Logf(
			"%s: %d answers over %d connections in %.0f s, %d failed or late (%d), %d waited for a packet to be sent "+
				"again, p50 %s, p99 %s, longest %s",
			by, load.Answers, load.Connections, load.Seconds, lost, load.Late, load.Waited, load.P50, load.P99, load.Max)
		if load.Waited*100 > load.Answers {
			t.Errorf("%s: %d of %d waited until a packet was sent again", by, load.Waited, load.Answers)
		}
		if lost > 0 {
			t.Logf("%s, from the restart on: %s", by, course(load, began))
		}
		if most := map[wire.LoadBy]int{wire.LoadUDP: mostLost}[by]; lost > most || load.Answers < 100 {
			t.Errorf("%s: %+v, at most %d may fail", by, load, most)
		}
		if fresh := count(load.ByServer, after); fresh == 0 {
			t.Errorf("%s: no new pod has answered: %v", by, load.ByServer)
		}
	}
	if old := count(loads[wire.LoadTCP].ByServer, before); old == 0 {
		t.Errorf("no old pod has answered: %v", loads[wire.LoadTCP].ByServer)
	}
}

// mostLost is how many packets by UDP may have no answer: what each of two clients has sent when nodes forget that it was led to
// a pod, for each of three pods.
const mostLost = 2 * 3

// loadWithin is how long the clients ask at most: until all pods are replaced and those before are gone, on a busy machine.
const loadWithin = 2*cluster.ReadyWithin + time.Minute

// afterwards is how long they go on when only new pods are left: longer than one question may take, so that each client has
// asked a new pod.
const afterwards = 6 * time.Second

// course is what happened to a load, and when: who answered from when until when, and what failed.
func course(load wire.Load, began time.Time) string {
	at := func(moment time.Time) string { return fmt.Sprintf("%.2f s", moment.Sub(began).Seconds()) }
	var words []string
	for _, span := range slices.SortedFunc(maps.Values(load.Spans), func(a, b wire.Span) int { return a.First.Compare(b.First) }) {
		words = append(words, "a pod answered from "+at(span.First)+" to "+at(span.Last))
	}
	for _, failure := range load.Failures {
		words = append(words, "asked at "+at(failure.Asked)+": "+failure.Error)
	}
	return strings.Join(words, "; ")
}

// count is how many answers came from some pods.
func count(by map[string]int, pods []*corev1.Pod) int {
	sum := 0
	for _, p := range pods {
		sum += by[string(p.UID)]
	}
	return sum
}

// podsOf are the pods of an app that are not going.
func (c *suite) podsOf(t *testing.T, ns, app string) []*corev1.Pod {
	t.Helper()
	list, err := c.Clients.Kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		t.Fatal(err)
	}
	var pods []*corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			pods = append(pods, &p)
		}
	}
	return pods
}

// waitRollout waits until all pods of a Deployment are of its present template and Ready.
func (c *suite) waitRollout(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	cluster.Eventually(t, cluster.ReadyWithin, "rollout of "+d.Name, func(ctx context.Context) error {
		now, err := c.Clients.Kube.AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s, want := now.Status, *now.Spec.Replicas
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != want || s.ReadyReplicas != want || s.Replicas != want {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}
