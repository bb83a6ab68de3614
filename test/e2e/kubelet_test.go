//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// handlers are the ways in which kubelet asks a container, each answered by netprobe.
func handlers() map[string]corev1.ProbeHandler {
	return map[string]corev1.ProbeHandler{
		"exec": {Exec: &corev1.ExecAction{Command: []string{matrix.Program, "ready"}}},
		"http": {HTTPGet: &corev1.HTTPGetAction{Path: wire.ReadyPath, Port: intstr.FromInt32(wire.HTTPPort)}},
		"tcp":  {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(wire.DefaultPort)}},
		"grpc": {GRPC: &corev1.GRPCAction{Port: wire.GRPCPort}},
	}
}

// quick is a probe that judges within seconds, but gives a busy machine time to answer.
func quick(handler corev1.ProbeHandler) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: handler, PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: 3}
}

// TestKubeletProbes: each kind of probe in each of its roles reaches pods of a Network of IPv4 and IPv6, and of one of IPv6
// alone. Two Networks have the same addresses on the same node.
func TestKubeletProbes(t *testing.T) {
	t.Parallel()
	dual := v1alpha1.Subnet{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}}
	kinds := []string{"exec", "http", "tcp", "grpc"}
	var pods []*corev1.Pod
	for _, network := range []struct {
		name, address string
		subnet        v1alpha1.Subnet
	}{
		{"asked-a", "10.0.0.2%d", dual},
		{"asked-b", "10.0.0.2%d", dual},
		{"asked-6", "fd00:10::2%d", cluster.Subnet("a", "fd00:10::/64")},
	} {
		env.Network(t, network.name, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{network.subnet}})
		env.Namespace(t, network.name, network.name)
		for i, kind := range kinds {
			object := cluster.PodSpec{
				Namespace: network.name, Name: kind, Node: "n1", NICs: fmt.Sprintf(`[{"ip":%q}]`, fmt.Sprintf(network.address, i)),
			}.Object()
			container := &object.Spec.Containers[0]
			container.StartupProbe = quick(handlers()[kinds[i]])
			container.StartupProbe.FailureThreshold = 60
			container.ReadinessProbe = quick(handlers()[kinds[(i+1)%len(kinds)]])
			container.LivenessProbe = quick(handlers()[kinds[(i+2)%len(kinds)]])
			pods = append(pods, env.Make(t, object))
		}
	}
	for _, p := range env.WaitReady(t, pods...) {
		if restarts := p.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
			t.Errorf("%s/%s was restarted %d times", p.Namespace, p.Name, restarts)
		}
	}
}

// TestKubeletAsksTheRightTwin: of two pods of one address on one node, what fails is what kubelet says fails.
func TestKubeletAsksTheRightTwin(t *testing.T) {
	t.Parallel()
	const node, right, wrong = "n2", "9001", "9002"
	pods := map[string]map[string]*corev1.Pod{}
	var all []*corev1.Pod
	for _, network := range []string{"twin-a", "twin-b"} {
		env.Network(t, network, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
		env.Namespace(t, network, network)
		port := map[string]string{"twin-a": right, "twin-b": wrong}[network]
		socket := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("served")}}
		made := map[string]*corev1.Pod{}
		for name, change := range map[string]func(*corev1.Container){
			"ready": func(c *corev1.Container) { c.ReadinessProbe = quick(socket) },
			"alive": func(c *corev1.Container) { c.LivenessProbe = quick(socket) },
			"freezes": func(c *corev1.Container) {
				c.ReadinessProbe = quick(handlers()["http"])
				c.ReadinessProbe.TimeoutSeconds = 1
			},
		} {
			address := map[string]string{"ready": "10.0.0.31", "alive": "10.0.0.32", "freezes": "10.0.0.33"}[name]
			object := cluster.PodSpec{Namespace: network, Name: name, Node: node, NICs: fmt.Sprintf(`[{"ip":%q}]`, address)}.Object()
			container := &object.Spec.Containers[0]
			// Both say that they serve on the first port.
			container.Command = append(container.Command, "-port="+port)
			container.Ports = []corev1.ContainerPort{{Name: "served", ContainerPort: 9001}}
			container.StartupProbe = nil
			change(container)
			made[name] = env.Make(t, object)
			if network == "twin-a" || name != "ready" {
				all = append(all, made[name])
			}
		}
		pods[network] = made
	}
	env.WaitReady(t, all...)

	env.waitUnhealthy(t, pods["twin-b"]["ready"], "Readiness probe failed")
	// kubelet tells of the failure before it writes that the container has started.
	cluster.Eventually(t, cluster.Patience, "twin-b/ready started", func(context.Context) error {
		p := env.Get(t, pods["twin-b"]["ready"])
		if cluster.IsReady(p) {
			t.Fatalf("twin-b/ready serves on another port than is asked, and is Ready: %+v", p.Status)
		}
		if started := p.Status.ContainerStatuses[0].Started; started == nil || !*started {
			return fmt.Errorf("%+v", p.Status.ContainerStatuses)
		}
		return nil
	})
	env.waitUnhealthy(t, pods["twin-b"]["alive"], "Liveness probe failed")
	cluster.Eventually(t, cluster.Patience, "twin-b/alive restarted", func(context.Context) error {
		if p := env.Get(t, pods["twin-b"]["alive"]); p.Status.ContainerStatuses[0].RestartCount == 0 {
			return fmt.Errorf("%+v", p.Status.ContainerStatuses)
		}
		return nil
	})

	// A server that stops answering while its twin goes on.
	frozen := env.Get(t, pods["twin-a"]["freezes"])
	pid := env.HostPID(t, frozen)
	signal := func(name string) {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if out, err := env.Box.Exec(ctx, node, "kill", "-"+name, pid); err != nil {
			t.Errorf("signal %s: %v\n%s", name, err, out)
		}
	}
	t.Cleanup(func() { signal("CONT") })
	for _, step := range []struct {
		signal string
		ready  bool
	}{{"STOP", false}, {"CONT", true}} {
		signal(step.signal)
		cluster.Eventually(t, cluster.Patience, fmt.Sprintf("twin-a/freezes Ready: %t", step.ready), func(context.Context) error {
			if p := env.Get(t, frozen); cluster.IsReady(p) != step.ready {
				return fmt.Errorf("%+v", p.Status.Conditions)
			}
			return nil
		})
	}
	for _, p := range []*corev1.Pod{pods["twin-a"]["ready"], pods["twin-a"]["alive"], pods["twin-b"]["freezes"]} {
		now := env.Get(t, p)
		if !cluster.IsReady(now) || now.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("%s/%s suffers with its twin: %+v", p.Namespace, p.Name, now.Status)
		}
	}
}

// waitUnhealthy waits until kubelet says that a probe of a pod failed.
func (c *suite) waitUnhealthy(t *testing.T, p *corev1.Pod, what string) {
	t.Helper()
	cluster.Eventually(t, cluster.ReadyWithin, fmt.Sprintf("%s of %s/%s", what, p.Namespace, p.Name), func(ctx context.Context) error {
		events, err := c.Clients.Kube.CoreV1().Events(p.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.uid=" + string(p.UID),
		})
		if err != nil {
			return err
		}
		var said []string
		for _, e := range events.Items {
			if e.Reason == "Unhealthy" && strings.HasPrefix(e.Message, what) {
				return nil
			}
			said = append(said, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("only %q", said)
	})
}
