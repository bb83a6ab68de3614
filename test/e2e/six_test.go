//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
)

// TestOnlyIPv6: in a cluster whose DNS and API have addresses of IPv4 alone, pods of a Network of IPv6 alone are probed, reach each
// other and the outside, find names as any program does, list pods by an ordinary client, and have their Services by ClusterIP and by an
// address of the Network's own.
func TestOnlyIPv6(t *testing.T) {
	t.Parallel()
	const ns = "six"
	env.Network(t, ns, v1alpha1.NetworkSpec{
		Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "fd00:66::/64")}, ServiceCIDRs: []v1alpha1.CIDR{"fd09::/112"},
	})
	env.Namespace(t, ns, ns)
	env.MayList(t, ns)
	single := corev1.IPFamilyPolicySingleStack
	six := []corev1.IPFamily{corev1.IPv6Protocol}
	ports := []corev1.ServicePort{{Name: "tcp", Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)}}
	service := env.Service(t, ns, "far", corev1.ServiceSpec{IPFamilyPolicy: &single, IPFamilies: six, Ports: ports})
	headless := corev1.ServiceSpec{
		IPFamilyPolicy: &single, IPFamilies: six, ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "far"}, Ports: ports,
	}
	_, err := env.Clients.Kube.CoreV1().Services(ns).Create(t.Context(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "peers"}, Spec: headless}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// One is told by its own object what a container runtime without NRI would not tell it (docs/api/network.md).
	told := planPod(ns, "told", "n1")
	told.Spec.DNSPolicy = corev1.DNSNone
	told.Spec.DNSConfig = &corev1.PodDNSConfig{
		Nameservers: []string{model.NamesAddress6().String()}, Searches: []string{
			ns + ".svc.cluster.local", "svc.cluster.local", "cluster.local",
		},
	}
	told.Spec.Containers[0].Env = append(told.Spec.Containers[0].Env, corev1.EnvVar{
		Name: "KUBERNETES_SERVICE_HOST", Value: "kubernetes.default.svc",
	})
	near, far := env.Make(t, planPod(ns, "near", "n1")), env.Make(t, planPod(ns, "far", "n2"))
	pods := env.WaitReady(t, near, far, env.Make(t, told))
	near, far, told = pods[0], pods[1], pods[2]
	env.Reach(t, near, far)
	env.Resolves(t, near, "peers", cluster.AddressesOfPod(t, far))
	own := ownAddresses(t, service)
	env.Resolves(t, near, "far", own)
	var answered []wire.Target
	for _, address := range append(own, clusterIPs(service)...) {
		answered = append(answered, wire.Target{Address: address, Protocol: wire.TCP, Port: 80})
	}
	env.AwaitProbes(t, near, answered, func(r wire.Result) error {
		if !r.Answered || r.Answerer.UID != string(far.UID) {
			return fmt.Errorf("%+v answered, want %s", r, far.Name)
		}
		return nil
	})
	outside := []netip.Addr{sandbox.OutsideAddresses()[1]}
	env.AwaitProbes(t, near, []wire.Target{{Address: outside[0], Protocol: wire.TCP}}, func(r wire.Result) error {
		if !r.Answered || r.Answerer.UID != sandbox.Outside {
			return fmt.Errorf("%+v answered", r)
		}
		return nil
	})
	for _, p := range []*corev1.Pod{near, far, told} {
		lists(t, p, "far", "near", "told")
	}
	env.Resolves(t, told, "far", own)
}
