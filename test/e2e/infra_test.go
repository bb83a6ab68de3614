//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
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
)

// infrastructure makes a namespace of the default Network whose pods reach those of all Networks.
func infrastructure(t *testing.T, name string) {
	t.Helper()
	env.Namespace(t, name, "")
	env.Kubectl(t, "label", "namespace", name, model.LabelInfrastructure+"=true")
}

// TestInfrastructureReachesPods: pods of infrastructure and of the nodes' own network reach pods of a Network by
// their faces and by a Service, on the same node and on another, and are seen there under their own addresses.
func TestInfrastructureReachesPods(t *testing.T) {
	t.Parallel()
	const ns, infra = "faced", "faced-infra"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}}}})
	env.Namespace(t, ns, ns)
	infrastructure(t, infra)
	pods := env.WaitReady(t,
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "near", Node: "n1", App: "near"}),
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "far", Node: "n2"}),
		env.Pod(t, cluster.PodSpec{Namespace: infra, Name: "plain", Node: "n1"}),
		env.Make(t, cluster.OnHost(infra, "host", "n1")),
	)
	near, far, plain, host := pods[0], pods[1], pods[2], pods[3]
	node, own := env.GivenTo(t, "n1"), model.OwnNodeAddresses()
	ownNode := own[:]
	for _, c := range []struct {
		client, server *corev1.Pod
		face           int
		sources        []netip.Addr
	}{
		{plain, near, 0, []netip.Addr{netip.MustParseAddr(plain.Status.PodIP)}},
		{plain, far, 0, []netip.Addr{netip.MustParseAddr(plain.Status.PodIP)}},
		// Its own node is seen under one address, by which policies let it in.
		{host, near, 0, ownNode[:1]},
		{host, far, 0, cluster.AddressesOf(node)},
		{plain, near, 1, cluster.AddressesOfPod(t, plain)},
		{plain, far, 1, cluster.AddressesOfPod(t, plain)},
		{host, near, 1, ownNode[1:]},
		{host, far, 1, cluster.AddressesOf(node)},
	} {
		face := cluster.AttachmentOf(t, c.server).Faces[c.face]
		for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP, wire.ICMP} {
			arrives(t, c.client, c.server, wire.Target{Address: face, Protocol: protocol}, c.sources)
		}
	}
	service := env.Service(t, ns, "near", corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)}},
	})
	virtual := netip.MustParseAddr(service.Spec.ClusterIP)
	for _, client := range []*corev1.Pod{plain, host} {
		arrives(t, client, near, wire.Target{Address: virtual, Protocol: wire.TCP, Port: 80}, nil)
	}
}

// TestFacesAreForInfrastructure: a pod of the default Network whose namespace is no infrastructure is refused by faces and by a
// Service that leads to one, on its own node and on another, until its namespace's label or the Network's own word lets it in. With
// infraIngress None the infrastructure is refused, too; nodes never are, and nobody is in another Network.
func TestFacesAreForInfrastructure(t *testing.T) {
	t.Parallel()
	const ns, infra, plain = "guarded", "guarded-infra", "guarded-plain"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}}}})
	env.Namespace(t, ns, ns)
	env.Namespace(t, plain, "")
	infrastructure(t, infra)
	pods := env.WaitReady(t,
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "near", Node: "n1", App: "near"}),
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "far", Node: "n2"}),
		env.Pod(t, cluster.PodSpec{Namespace: plain, Name: "plain", Node: "n1"}),
		env.Pod(t, cluster.PodSpec{Namespace: infra, Name: "system", Node: "n1"}),
		env.Make(t, cluster.OnHost(infra, "host", "n1")),
	)
	near, far, stranger, system, host := pods[0], pods[1], pods[2], pods[3], pods[4]
	service := env.Service(t, ns, "near", corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: "tcp", Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)},
		{Name: "udp", Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort), Protocol: corev1.ProtocolUDP},
	}})
	var targets []wire.Target
	for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP} {
		targets = append(targets, wire.Target{Address: netip.MustParseAddr(service.Spec.ClusterIP), Protocol: protocol, Port: 80})
		for _, server := range []*corev1.Pod{near, far} {
			for _, face := range cluster.AttachmentOf(t, server).Faces {
				targets = append(targets, wire.Target{Address: face, Protocol: protocol})
			}
		}
	}
	answered := func(r wire.Result) error {
		if !r.Answered {
			return fmt.Errorf("%+v, want an answer", r)
		}
		return nil
	}
	refused := func(r wire.Result) error {
		if r.Answered || !strings.Contains(r.Error, "refused") {
			return fmt.Errorf("%+v, want a refusal", r)
		}
		return nil
	}
	expect := func(of map[*corev1.Pod]func(wire.Result) error) {
		t.Helper()
		for from, judge := range of {
			env.AwaitProbes(t, from, targets, judge)
		}
	}
	say := func(who v1alpha1.InfraIngress) {
		env.ChangeNetwork(t, ns, func(s *v1alpha1.NetworkSpec) { s.InfraIngress = who })
	}
	expect(map[*corev1.Pod]func(wire.Result) error{stranger: refused, system: answered, host: answered})
	say(v1alpha1.InfraIngressNone)
	expect(map[*corev1.Pod]func(wire.Result) error{stranger: refused, system: refused, host: answered})
	say(v1alpha1.InfraIngressAll)
	expect(map[*corev1.Pod]func(wire.Result) error{stranger: answered, system: answered, host: answered})
	say(v1alpha1.InfraIngressInfrastructure)
	expect(map[*corev1.Pod]func(wire.Result) error{stranger: refused, system: answered})
	env.Kubectl(t, "label", "namespace", plain, model.LabelInfrastructure+"=true")
	expect(map[*corev1.Pod]func(wire.Result) error{stranger: answered})
	env.Kubectl(t, "label", "namespace", plain, model.LabelInfrastructure+"-")
	expect(map[*corev1.Pod]func(wire.Result) error{stranger: refused})
}

// TestFacesInsideTheirNetwork: a pod that dials what the API says of another pod of its Network, its face, reaches that pod on
// the same node and on another, and is seen under its own address. The same face dialled by a pod of another Network, which
// has the same addresses, leads nowhere: TestAttacksFromANetwork.
func TestFacesInsideTheirNetwork(t *testing.T) {
	t.Parallel()
	const ns = "faces"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{
		{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}}, {Name: "b", CIDRs: []v1alpha1.CIDR{"10.0.1.0/24", "fd00:11::/64"}},
	}})
	env.Namespace(t, ns, ns)
	pods := env.WaitReady(t,
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "near", Node: "n1"}),
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "far", Node: "n2"}),
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "routed", Node: "n2", NICs: `[{"subnet":"b"}]`}),
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "client", Node: "n1"}),
	)
	client := pods[3]
	own := cluster.AddressesOfPod(t, client)
	for _, server := range pods {
		for _, face := range cluster.AttachmentOf(t, server).Faces {
			for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP, wire.ICMP} {
				sources := own
				if server == client {
					sources = nil
				}
				arrives(t, client, server, wire.Target{Address: face, Protocol: protocol}, sources)
			}
		}
	}
}

// TestOverlapWithInfrastructure: a Network whose range is also the default Network's says so, is served all the same, and
// sees clients from there as the porthole.
func TestOverlapWithInfrastructure(t *testing.T) {
	t.Parallel()
	const ns, infra = "overlaps", "overlaps-infra"
	infrastructure(t, infra)
	plain := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: infra, Name: "plain", Node: "n1"}))[0]
	taken, err := netip.MustParseAddr(plain.Status.PodIP).Prefix(24)
	if err != nil {
		t.Fatal(err)
	}
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", taken.String())}})
	env.Namespace(t, ns, ns)
	message := env.WaitCondition(t, ns, model.ConditionCIDRConflict, metav1.ConditionTrue, model.ReasonOverlapsInfra)
	t.Log(message)
	pods := env.WaitReady(t,
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "near", Node: "n1"}),
		// The client's very address.
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "far", Node: "n2", NICs: fmt.Sprintf(`[{"ip":%q}]`, plain.Status.PodIP)}),
	)
	env.Reach(t, pods[0], pods[1])
	for _, server := range pods {
		arrives(t, plain, server, wire.Target{Address: netip.MustParseAddr(server.Status.PodIP), Protocol: wire.TCP},
			[]netip.Addr{model.PortholeAddresses()[0].Addr()})
	}
}

// arrives waits until a client is answered by a server, and by nobody else, and has been seen there under one of the
// sources; none means any.
func arrives(t *testing.T, client, server *corev1.Pod, target wire.Target, sources []netip.Addr) {
	t.Helper()
	what := fmt.Sprintf("%s/%s reaches %s/%s at %s by %s", client.Namespace, client.Name, server.Namespace, server.Name, target.Address,
		target.Protocol)
	cluster.Eventually(t, cluster.Patience, what, func(ctx context.Context) error {
		target.Token = cluster.NewToken(t)
		results, err := matrix.Probe(ctx, env.Exec, client.Namespace, client.Name, []wire.Target{target})
		if err != nil {
			return err
		}
		r := results[target.Token]
		if !r.Answered {
			return fmt.Errorf("no answer: %+v", r)
		}
		if target.Protocol != wire.ICMP && r.Answerer.UID != string(server.UID) {
			t.Fatalf("%s: %s answered", what, r.Answerer)
		}
		seen, err := matrix.Seen(ctx, env.Exec, server.Namespace, server.Name, target.Token)
		if err != nil {
			return err
		}
		if len(seen) == 0 ||
			len(sources) > 0 && slices.ContainsFunc(seen, func(s wire.Sighting) bool { return !slices.Contains(sources, s.From) }) {
			t.Errorf("%s: seen as %+v, want one of %v", what, seen, sources)
		}
		return nil
	})
}
