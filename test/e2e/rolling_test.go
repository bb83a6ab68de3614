//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// TestRollingRestart: while all pods of a Deployment are replaced, no client of its Service sees an error, whether it connects
// each time or keeps its connection. One that sends UDP from one port all the time is led to the next pod while its own still
// serves, and loses at most what is under way at that moment.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	const ns = "rolling"
	env.network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{subnet("a", "10.0.0.0/24")}})
	env.namespace(t, ns, ns)
	service := env.service(t, ns, "web", corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: "tcp", Port: 80, TargetPort: intstr.FromString("echo")},
		{Name: "udp", Port: 80, TargetPort: intstr.FromString("echo-udp"), Protocol: corev1.ProtocolUDP},
		{Name: "http", Port: 8000, TargetPort: intstr.FromInt32(wire.HTTPPort)},
	}})
	template := podSpec{namespace: ns, name: "web", app: "web"}.object()
	container := &template.Spec.Containers[0]
	container.Ports = []corev1.ContainerPort{
		{Name: "echo", ContainerPort: wire.DefaultPort}, {Name: "echo-udp", ContainerPort: wire.DefaultPort, Protocol: corev1.ProtocolUDP},
	}
	container.ReadinessProbe = quick(handlers()["http"])
	container.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 4}}}
	grace, replicas := int64(10), int32(3)
	template.Spec.TerminationGracePeriodSeconds = &grace
	deployments := env.clients.Kube.AppsV1().Deployments(ns)
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
	client := env.waitReady(t, env.pod(t, podSpec{namespace: ns, name: "client", node: "n1"}))[0]
	env.waitRollout(t, deployment)
	before := env.uidsOf(t, ns, "web")
	address := netip.MustParseAddr(service.Spec.ClusterIP)
	for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP} {
		eventually(t, 30*time.Second, "the Service answers by "+string(protocol), func(ctx context.Context) error {
			target := wire.Target{Address: address, Protocol: protocol, Port: 80, Token: newToken(t)}
			results, err := matrix.Probe(ctx, env.exec, ns, client.Name, []wire.Target{target})
			if err == nil && !results[target.Token].Answered {
				err = fmt.Errorf("%+v", results[target.Token])
			}
			return err
		})
	}

	loads := map[wire.LoadBy]wire.Load{}
	var mu sync.Mutex
	var running sync.WaitGroup
	ctx, stop := context.WithTimeout(t.Context(), readyWithin)
	defer stop()
	for by, port := range map[wire.LoadBy]uint16{wire.LoadTCP: 80, wire.LoadUDP: 80, wire.LoadHTTP: 8000} {
		running.Go(func() {
			out, err := env.exec(ctx, ns, client.Name, nil, matrix.Program, "load", "-by="+string(by), "-workers=2", "-pause=10ms",
				"-for=20s", "-at="+netip.AddrPortFrom(address, port).String())
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
	restart := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"restarted":%q}}}}}`, time.Now().Format(time.RFC3339Nano))
	if deployment, err = deployments.Patch(ctx, "web", types.StrategicMergePatchType, restart, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	env.waitRollout(t, deployment)
	running.Wait()
	after := env.uidsOf(t, ns, "web")
	for by, load := range loads {
		lost := load.Late
		for _, n := range load.Errors {
			lost += n
		}
		t.Logf("%s: %d answers over %d connections in %.0f s, %d failed or late (%d), p50 %s, p99 %s, longest %s",
			by, load.Answers, load.Connections, load.Seconds, lost, load.Late, load.P50, load.P99, load.Max)
		if most := map[wire.LoadBy]int{wire.LoadUDP: mostLost}[by]; lost > most || load.Answers < 100 {
			t.Errorf("%s: %+v, at most %d may fail", by, load, most)
		}
		if fresh := count(load.By, after); fresh == 0 {
			t.Errorf("%s: no new pod has answered: %v", by, load.By)
		}
	}
	if old := count(loads[wire.LoadTCP].By, before); old == 0 {
		t.Errorf("no old pod has answered: %v", loads[wire.LoadTCP].By)
	}
}

// mostLost is how many packets by UDP may have no answer: what each of two clients has sent when nodes forget that it was led to
// a pod, for each of three pods.
const mostLost = 2 * 3

// count is how many answers came from some of the servers.
func count(by map[string]int, uids map[string]bool) int {
	sum := 0
	for uid, answers := range by {
		if uids[uid] {
			sum += answers
		}
	}
	return sum
}

// uidsOf are the UIDs of the pods of an app that are not going.
func (c *cluster) uidsOf(t *testing.T, ns, app string) map[string]bool {
	t.Helper()
	list, err := c.clients.Kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		t.Fatal(err)
	}
	uids := map[string]bool{}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			uids[string(p.UID)] = true
		}
	}
	return uids
}

// waitRollout waits until all pods of a Deployment are of its present template and Ready.
func (c *cluster) waitRollout(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	eventually(t, readyWithin, "rollout of "+d.Name, func(ctx context.Context) error {
		now, err := c.clients.Kube.AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
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
