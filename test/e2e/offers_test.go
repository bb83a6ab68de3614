//go:build e2e

package e2e

import (
	"context"
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
)

// talker is a pod behind the Services of TestWhatAProviderOffers. Its port is called talk, and has a number of its own.
func talker(s cluster.PodSpec, port int32) *corev1.Pod {
	p := s.Object()
	p.Spec.Hostname, p.Spec.Subdomain = s.Name, "peers"
	c := &p.Spec.Containers[0]
	c.Command = []string{matrix.Program, "serve", fmt.Sprintf("-port=%d", port)}
	c.StartupProbe.ProbeHandler = corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: wire.ReadyPath, Port: intstr.FromInt32(wire.HTTPPort)},
	}
	c.Ports = []corev1.ContainerPort{{Name: "talk", ContainerPort: port}}
	return p
}

// TestWhatAProviderOffers: a consumer's pods find and reach what is behind a provider's Services in all ways in which Services
// name it: ports by name, with another number in each pod; a headless Service's pods, all and by their own names. And a Service
// with pods in both Networks leads a consumer's pods to both, and the provider's to the provider's.
func TestWhatAProviderOffers(t *testing.T) {
	t.Parallel()
	const a, b = "offers-a", "offers-b"
	vip := netip.MustParseAddr("10.7.0.10")
	subnets := []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}
	env.Network(t, a, v1alpha1.NetworkSpec{
		Subnets: subnets, ServiceCIDRs: []v1alpha1.CIDR{"10.7.0.0/24"}, CompatibleWith: []v1alpha1.CompatiblePeer{{Network: b}},
	})
	env.Network(t, b, v1alpha1.NetworkSpec{Subnets: subnets, AllowedNamespaces: &metav1.LabelSelector{}})
	env.Namespace(t, a, a)
	env.Namespace(t, b, b)
	ports := []corev1.ServicePort{{Name: "echo", Port: 80, TargetPort: intstr.FromString("talk")}}
	env.Service(t, a, "web", corev1.ServiceSpec{Ports: ports})
	env.Kubectl(t, "annotate", "service", "-n", a, "web", model.AnnotationServiceIPs+"="+vip.String())
	headless := corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "web"}, Ports: ports}
	if _, err := env.Clients.Kube.CoreV1().Services(a).Create(t.Context(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "peers"}, Spec: headless}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := env.WaitReady(t,
		env.Make(t, talker(cluster.PodSpec{Namespace: a, Name: "one", App: "web", Node: "n1"}, wire.DefaultPort)),
		env.Make(t, talker(cluster.PodSpec{Namespace: a, Name: "two", App: "web", Node: "n2"}, wire.DefaultPort+10)),
		env.Pod(t, cluster.PodSpec{Namespace: b, Name: "client", Node: "n1"}),
		env.Pod(t, cluster.PodSpec{Namespace: a, Name: "insider", Node: "n2"}),
	)
	one, two, client, insider := pods[0], pods[1], pods[2], pods[3]
	face := func(p *corev1.Pod) netip.Addr { return netip.MustParseAddr(p.Status.PodIP) }
	own := func(p *corev1.Pod) netip.Addr { return netip.MustParseAddr(cluster.OwnAddress(t, p)) }
	name := func(of string) string { return of + "." + a + ".svc.cluster.local" }
	target := wire.Target{Address: vip, Protocol: wire.TCP, Port: 80}

	env.Resolves(t, client, name("web"), []netip.Addr{vip})
	env.Resolves(t, client, name("peers"), []netip.Addr{face(one), face(two)})
	env.Resolves(t, client, name("two.peers"), []netip.Addr{face(two)})
	env.Resolves(t, insider, name("peers"), []netip.Addr{own(one), own(two)})
	cluster.Eventually(t, cluster.Patience, "the ports by name", func(ctx context.Context) error {
		said, err := env.Dig(ctx, client, "SRV", "_echo._tcp."+name("peers"))
		if all := strings.Join(said.Records,
			" "); err == nil && (len(said.Records) != 2 || !strings.Contains(all, " 8080 one.") || !strings.Contains(all, " 8090 two.")) {
			err = fmt.Errorf("%q", said.Records)
		}
		return err
	})
	shared(t, client, target, []*corev1.Pod{one, two})
	for _, p := range []*corev1.Pod{one, two} {
		at := wire.Target{Address: face(p), Protocol: wire.TCP, Port: uint16(p.Spec.Containers[0].Ports[0].ContainerPort)}
		shared(t, client, at, []*corev1.Pod{p})
	}

	three := env.WaitReady(t,
		env.Make(t, talker(cluster.PodSpec{Namespace: a, Network: b, Name: "three", App: "web", Node: "n2"}, wire.DefaultPort)))[0]
	env.Resolves(t, client, name("peers"), []netip.Addr{face(one), face(two), own(three)})
	env.Resolves(t, insider, name("peers"), []netip.Addr{own(one), own(two)})
	shared(t, client, target, []*corev1.Pod{one, two, three})
	shared(t, insider, target, []*corev1.Pod{one, two})

	env.DeletePod(t, three)
	env.WaitGone(t, three)
	env.Resolves(t, client, name("peers"), []netip.Addr{face(one), face(two)})
	shared(t, client, target, []*corev1.Pod{one, two})
}

// TestGatewaysOffered: pods of a consumer reach the pods behind a provider's Gateway at its address, if that is of the provider's
// service ranges, by TCP and by UDP, on the same node and on another, and until the provider wants it no more.
func TestGatewaysOffered(t *testing.T) {
	env.installGatewayAPI(t)
	const a, b = "gates-provider", "gates-consumer"
	virtual := netip.MustParseAddr("10.7.0.7")
	subnets := []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}
	env.Network(t, a, v1alpha1.NetworkSpec{
		Subnets: subnets, ServiceCIDRs: []v1alpha1.CIDR{"10.7.0.0/24"}, CompatibleWith: []v1alpha1.CompatiblePeer{{Network: b}},
	})
	env.Network(t, b, v1alpha1.NetworkSpec{Subnets: subnets})
	env.Namespace(t, a, a)
	env.Namespace(t, b, b)
	env.Service(t, a, "echo", corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)},
		{Name: "udp", Protocol: corev1.ProtocolUDP, Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)},
	}})
	env.Apply(t, strings.NewReplacer("NAMESPACE", a, "198.18.7.7", virtual.String()).Replace(gatewayManifest))
	pods := env.WaitReady(t,
		env.Pod(t, cluster.PodSpec{Namespace: a, Name: "near", Node: "n1", App: "echo"}),
		env.Pod(t, cluster.PodSpec{Namespace: a, Name: "far", Node: "n2", App: "echo"}),
		env.Pod(t, cluster.PodSpec{Namespace: b, Name: "client", Node: "n1"}),
	)
	servers, client := pods[:2], pods[2]
	env.waitProgrammed(t, a, "front", virtual)
	for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP} {
		shared(t, client, wire.Target{Address: virtual, Protocol: protocol, Port: 7000}, servers)
	}
	env.ChangeNetwork(t, a, func(s *v1alpha1.NetworkSpec) { s.CompatibleWith = nil })
	for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP} {
		silent(t, client, wire.Target{Address: virtual, Protocol: protocol, Port: 7000})
	}
}
