//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
)

// TestASecondFlatNetwork: pods of a flat Network beside the default one, on two nodes, are probed by their kubelets, reach each other,
// names, Services, the API and the outside, and are reached from nodes under their own addresses. Other pods of the default Network
// and they do not reach each other. A third flat Network with the same addresses is refused, and says why.
func TestASecondFlatNetwork(t *testing.T) {
	t.Parallel()
	const ns, plain, infra, late = "wide", "wide-plain", "wide-infra", "wide-late"
	env.Network(t, ns, v1alpha1.NetworkSpec{Type: v1alpha1.NetworkFlat, Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.245.0.0/24")}})
	env.Namespace(t, ns, ns)
	env.Namespace(t, plain, "")
	infrastructure(t, infra)
	env.MayList(t, ns)
	object, token := cluster.PodSpec{Namespace: ns, Name: "far", Node: "n2"}.Object(), true
	object.Spec.AutomountServiceAccountToken = &token
	// They have readiness probes.
	pods := env.WaitReady(t,
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "near", Node: "n1", App: "near"}),
		env.Make(t, object),
		env.Pod(t, cluster.PodSpec{Namespace: plain, Name: "plain", Node: "n1"}),
		env.Pod(t, cluster.PodSpec{Namespace: infra, Name: "system", Node: "n2"}),
		env.Make(t, cluster.OnHost(infra, "host", "n1")),
	)
	near, far, stranger, system, host := pods[0], pods[1], pods[2], pods[3], pods[4]
	address := func(p *corev1.Pod) netip.Addr { return netip.MustParseAddr(p.Status.PodIP) }
	for _, p := range pods[:2] {
		if !netip.MustParsePrefix("10.245.0.0/24").Contains(address(p)) {
			t.Fatalf("%s has %s", p.Name, address(p))
		}
	}
	for _, pair := range [][2]*corev1.Pod{{near, far}, {far, near}, {system, near}, {near, system}, {host, near}, {host, far}} {
		for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP, wire.ICMP} {
			sources := []netip.Addr{address(pair[0])}
			if pair[0] == host {
				sources = cluster.AddressesOf(env.GivenTo(t, "n1"))
			}
			arrives(t, pair[0], pair[1], wire.Target{Address: address(pair[1]), Protocol: protocol}, sources)
		}
	}
	refused := func(r wire.Result) error {
		if r.Answered || !strings.Contains(r.Error, "refused") {
			return fmt.Errorf("%+v, want a refusal", r)
		}
		return nil
	}
	for _, pair := range [][2]*corev1.Pod{{stranger, near}, {stranger, far}, {near, stranger}} {
		env.AwaitProbes(t, pair[0],
			[]wire.Target{{Address: address(pair[1]), Protocol: wire.TCP}, {Address: address(pair[1]), Protocol: wire.UDP}}, refused)
	}
	service := env.Service(t, ns, "near", corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)}},
	})
	virtual := netip.MustParseAddr(service.Spec.ClusterIP)
	for _, client := range []*corev1.Pod{far, near, system, host} {
		arrives(t, client, near, wire.Target{Address: virtual, Protocol: wire.TCP, Port: 80}, nil)
	}
	env.Resolves(t, far, "near."+ns+".svc.cluster.local.", []netip.Addr{virtual})
	if _, err := env.Exec(t.Context(), far.Namespace, far.Name, nil, matrix.Program, "api"); err != nil {
		t.Errorf("the Kubernetes API: %v", err)
	}
	answered := func(r wire.Result) error {
		if !r.Answered {
			return fmt.Errorf("%+v, want an answer", r)
		}
		return nil
	}
	env.AwaitProbes(t, far, []wire.Target{{Address: sandbox.OutsideAddresses()[0], Protocol: wire.TCP}}, answered)

	env.Network(t, late, v1alpha1.NetworkSpec{Type: v1alpha1.NetworkFlat, Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.245.0.128/25")}})
	message := env.WaitCondition(t, late, model.ConditionSubnetsValid, metav1.ConditionFalse, model.ReasonSubnetsOverlap)
	if !strings.Contains(message, `10.245.0.128/25 overlaps 10.245.0.0/24 of Network "wide"`) {
		t.Errorf("the later Network says %q", message)
	}
}
