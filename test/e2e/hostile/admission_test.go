//go:build e2e

package hostile

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
)

// TestExternalAddresses: a tenant's Service asks for addresses that kube-proxy would catch on every node.
func TestExternalAddresses(t *testing.T) {
	edit, owner := mallory(t), everything(t)
	asks := func(address string) attempt {
		return writes(func(ctx context.Context) error {
			_, err := edit.CoreV1().Services("attackers").Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "catches"},
				Spec:       corev1.ServiceSpec{ExternalIPs: []string{address}, Ports: []corev1.ServicePort{{Port: 80}}},
			}, metav1.CreateOptions{DryRun: dry()})
			return err
		})
	}
	env.Service(t, "attackers", "balanced", corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}})
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if err := env.Clients.Kube.CoreV1().Services("attackers").Delete(ctx, "balanced", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	publishes := func(address string) attempt {
		return writes(func(ctx context.Context) error {
			service, err := owner.CoreV1().Services("attackers").Get(ctx, "balanced", metav1.GetOptions{})
			if err != nil {
				return err
			}
			service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
			_, err = owner.CoreV1().Services("attackers").UpdateStatus(ctx, service, metav1.UpdateOptions{DryRun: dry()})
			return err
		})
	}
	face, node := faces(member(t, "victims/near"))[0].String(), env.NodeAddresses(t, "n1")[0].String()
	outside := sandbox.OutsideAddresses()[0].String()
	policy("atoll-external-addresses").holds(t,
		attack{"spec.externalIPs with a victim's face", asks(face)},
		attack{"spec.externalIPs with a node's address", asks(node)},
		attack{"spec.externalIPs with a Service's address", asks("10.96.0.1")},
		attack{"spec.externalIPs with an address that others dial outside", asks(outside)},
		attack{"status.loadBalancer with a victim's face", publishes(face)},
		attack{"status.loadBalancer with an address that others dial outside", publishes(outside)},
	)
}

// TestProbesAsAProxy: a pod has its node ask somebody else.
func TestProbesAsAProxy(t *testing.T) {
	edit := mallory(t)
	face := faces(member(t, "victims/near"))[0].String()
	creates := func(change func(*corev1.Container)) attempt {
		return writes(func(ctx context.Context) error {
			p := cluster.PodSpec{Namespace: "attackers", Name: "asks"}.Object()
			change(&p.Spec.Containers[0])
			_, err := edit.CoreV1().Pods("attackers").Create(ctx, p, metav1.CreateOptions{DryRun: dry()})
			return err
		})
	}
	port := intstr.FromInt32(wire.HTTPPort)
	tcp := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: face, Port: port}}
	web := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "127.0.0.1", Port: port}}
	policy("atoll-pods").holds(t,
		attack{
			"a readiness probe of a victim's face", creates(func(c *corev1.Container) { c.ReadinessProbe = &corev1.Probe{ProbeHandler: tcp} }),
		},
		attack{"a liveness probe of the node itself", creates(func(c *corev1.Container) { c.LivenessProbe = &corev1.Probe{ProbeHandler: web} })},
		attack{"a startup probe of a victim's face", creates(func(c *corev1.Container) { c.StartupProbe = &corev1.Probe{ProbeHandler: tcp} })},
		attack{"a hook that asks the node itself", creates(func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: web.HTTPGet}}
		})},
	)
}

// TestPodsThatAreTheNode: pods that would be on the node and not in their Network, in a namespace that names no Pod Security
// level.
func TestPodsThatAreTheNode(t *testing.T) {
	env.Namespace(t, "unlevelled", "attackers")
	creates := func(change func(*corev1.Pod)) attempt {
		return writes(func(ctx context.Context) error {
			p := cluster.PodSpec{Namespace: "unlevelled", Name: "node"}.Object()
			change(p)
			_, err := env.Clients.Kube.CoreV1().Pods("unlevelled").Create(ctx, p, metav1.CreateOptions{DryRun: dry()})
			return err
		})
	}
	yes := true
	policy("atoll-pod-security").holds(t,
		attack{"hostNetwork", creates(func(p *corev1.Pod) { p.Spec.HostNetwork = true })},
		attack{"hostPID", creates(func(p *corev1.Pod) { p.Spec.HostPID = true })},
		attack{"privileged", creates(func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
		})},
		attack{"NET_ADMIN", creates(func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}}}
		})},
		attack{"hostPath", creates(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		})},
	)
}
