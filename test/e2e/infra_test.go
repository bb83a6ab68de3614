//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/intake"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// TestInfrastructureReachesPods: pods of the default Network and of the nodes' own network reach pods of a Network by
// their faces and by a Service, on the same node and on another, and are seen there under their own addresses.
func TestInfrastructureReachesPods(t *testing.T) {
	t.Parallel()
	const ns, infra = "faced", "faced-infra"
	env.network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}}}})
	env.namespace(t, ns, ns)
	env.namespace(t, infra, "")
	pods := env.waitReady(t,
		env.pod(t, podSpec{namespace: ns, name: "near", node: "n1", app: "near"}),
		env.pod(t, podSpec{namespace: ns, name: "far", node: "n2"}),
		env.pod(t, podSpec{namespace: infra, name: "plain", node: "n1"}),
		env.make(t, onHost(infra, "host", "n1")),
	)
	near, far, plain, host := pods[0], pods[1], pods[2], pods[3]
	node, own := givenTo(t, "n1"), model.OwnNodeAddresses()
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
		{host, far, 0, addressesOf(node)},
		{plain, near, 1, addressesOfPod(t, plain)},
		{plain, far, 1, addressesOfPod(t, plain)},
		{host, near, 1, ownNode[1:]},
		{host, far, 1, addressesOf(node)},
	} {
		face := attachmentOf(t, c.server).Faces[c.face]
		for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP, wire.ICMP} {
			arrives(t, c.client, c.server, wire.Target{Address: face, Protocol: protocol}, c.sources)
		}
	}
	service := env.service(t, ns, "near", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)}}})
	virtual := netip.MustParseAddr(service.Spec.ClusterIP)
	for _, client := range []*corev1.Pod{plain, host} {
		arrives(t, client, near, wire.Target{Address: virtual, Protocol: wire.TCP, Port: 80}, nil)
	}
}

// TestFacesInsideTheirNetwork: a pod that dials what the API says of another pod of its Network, its face, reaches that pod on
// the same node and on another, and is seen under its own address. The same face dialled by a pod of another Network, which
// has the same addresses, leads nowhere: TestAttacksFromANetwork.
func TestFacesInsideTheirNetwork(t *testing.T) {
	t.Parallel()
	const ns = "faces"
	env.network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{
		{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}}, {Name: "b", CIDRs: []v1alpha1.CIDR{"10.0.1.0/24", "fd00:11::/64"}},
	}})
	env.namespace(t, ns, ns)
	pods := env.waitReady(t,
		env.pod(t, podSpec{namespace: ns, name: "near", node: "n1"}),
		env.pod(t, podSpec{namespace: ns, name: "far", node: "n2"}),
		env.pod(t, podSpec{namespace: ns, name: "routed", node: "n2", nics: `[{"subnet":"b"}]`}),
		env.pod(t, podSpec{namespace: ns, name: "client", node: "n1"}),
	)
	client := pods[3]
	own := addressesOfPod(t, client)
	for _, server := range pods {
		for _, face := range attachmentOf(t, server).Faces {
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
	env.namespace(t, infra, "")
	plain := env.waitReady(t, env.pod(t, podSpec{namespace: infra, name: "plain", node: "n1"}))[0]
	taken, err := netip.MustParseAddr(plain.Status.PodIP).Prefix(24)
	if err != nil {
		t.Fatal(err)
	}
	env.network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{subnet("a", taken.String())}})
	env.namespace(t, ns, ns)
	message := env.waitCondition(t, ns, model.ConditionCIDRConflict, metav1.ConditionTrue, model.ReasonOverlapsInfra)
	t.Log(message)
	pods := env.waitReady(t,
		env.pod(t, podSpec{namespace: ns, name: "near", node: "n1"}),
		// The client's very address.
		env.pod(t, podSpec{namespace: ns, name: "far", node: "n2", nics: fmt.Sprintf(`[{"ip":%q}]`, plain.Status.PodIP)}),
	)
	reach(t, pods[0], pods[1])
	for _, server := range pods {
		arrives(t, plain, server, wire.Target{Address: netip.MustParseAddr(server.Status.PodIP), Protocol: wire.TCP},
			[]netip.Addr{model.PortholeAddresses()[0].Addr()})
	}
}

// arrives waits until a client is answered by a server, and by nobody else, and has been seen there under one of the
// sources; none means any.
func arrives(t *testing.T, client, server *corev1.Pod, target wire.Target, sources []netip.Addr) {
	t.Helper()
	what := fmt.Sprintf("%s/%s reaches %s/%s at %s by %s", client.Namespace, client.Name, server.Namespace, server.Name, target.Address, target.Protocol)
	eventually(t, patience, what, func(ctx context.Context) error {
		target.Token = newToken(t)
		results, err := matrix.Probe(ctx, env.exec, client.Namespace, client.Name, []wire.Target{target})
		if err != nil {
			return err
		}
		r := results[target.Token]
		if !r.Answered {
			return fmt.Errorf("no answer: %+v", r)
		}
		if target.Protocol != wire.ICMP && r.By.UID != string(server.UID) {
			t.Fatalf("%s: %s answered", what, r.By)
		}
		seen, err := matrix.Seen(ctx, env.exec, server.Namespace, server.Name, target.Token)
		if err != nil {
			return err
		}
		if len(seen) == 0 || len(sources) > 0 && slices.ContainsFunc(seen, func(s wire.Sighting) bool { return !slices.Contains(sources, s.From) }) {
			t.Errorf("%s: seen as %+v, want one of %v", what, seen, sources)
		}
		return nil
	})
}

// givenTo is what the controller gave a node.
func givenTo(t *testing.T, name string) *model.NodeNetwork {
	t.Helper()
	node, err := env.clients.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	given := intake.NodeNetwork(node.Annotations[model.AnnotationNode], string(node.UID))
	if given == nil || len(given.Addresses) == 0 {
		t.Fatalf("%s has been given %+v", name, given)
	}
	return given
}

// addressesOf are a node's addresses in the default Network.
func addressesOf(node *model.NodeNetwork) []netip.Addr {
	var out []netip.Addr
	for _, p := range node.Addresses {
		out = append(out, p.Addr())
	}
	return out
}

// addressesOfPod are a pod's own addresses in its Network.
func addressesOfPod(t *testing.T, p *corev1.Pod) []netip.Addr {
	t.Helper()
	var out []netip.Addr
	for _, a := range attachmentOf(t, p).Addresses {
		out = append(out, a.Addr())
	}
	return out
}
