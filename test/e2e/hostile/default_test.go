//go:build e2e

package hostile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
)

// TestDefaultNetworkIsNoWayOut: a tenant's pods, which have a Network of their own, ask for the default one, from which more can
// be reached.
func TestDefaultNetworkIsNoWayOut(t *testing.T) {
	target := member(t, "plain/far")
	labelled("that the namespace has a Network of its own", "attackers", model.LabelNetwork, "").holds(t,
		attack{"by label", joins(t, cluster.PodSpec{Name: "out-by-label", Network: "default"}, target)},
		attack{"by interface", joins(t, cluster.PodSpec{Name: "out-by-nics", NICs: `[{"network":"default"}]`}, target)},
	)
}

// faces are a pod's addresses that Kubernetes knows.
func faces(p *corev1.Pod) []netip.Addr {
	var out []netip.Addr
	for _, ip := range p.Status.PodIPs {
		out = append(out, netip.MustParseAddr(ip.IP))
	}
	return out
}

// ledBy makes a Service of a namespace with a slice written by hand, and is its address.
func ledBy(t *testing.T, namespace, name string, endpoint netip.Addr) netip.Addr {
	t.Helper()
	services := env.Clients.Kube.CoreV1().Services(namespace)
	service, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: wire.DefaultPort}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	port, yes := int32(wire.DefaultPort), true
	_, err = env.Clients.Kube.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{endpoint.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}}},
		Ports:       []discoveryv1.EndpointPort{{Port: &port}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		// The slice goes with it.
		if err := services.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return netip.MustParseAddr(service.Spec.ClusterIP)
}

// TestFacesFromTheDefaultNetwork: pods of the default Network dial victims' faces, of both families, and a Service whose slice
// somebody wrote by hand. What is said of them is the victims' Network's, and their namespace's.
func TestFacesFromTheDefaultNetwork(t *testing.T) {
	var attacks []attack
	by := ledBy(t, "plain", "by-hand", faces(member(t, "victims/far"))[0])
	for _, name := range []string{"plain/weak", "plain/strong"} {
		from := member(t, name)
		for _, to := range []string{"victims/near", "victims/far"} {
			for _, face := range faces(member(t, to)) {
				for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP} {
					attacks = append(attacks, attack{fmt.Sprintf("%s dials %s, %s, by %s", name, to, face, protocol), dials(from, face, 0, protocol)})
				}
			}
		}
		attacks = append(attacks, attack{name + " dials a Service with a slice made by hand", dials(from, by, 0, wire.TCP)})
	}
	spec("infraIngress", "victims", func(s *v1alpha1.NetworkSpec) { s.InfraIngress = v1alpha1.InfraIngressAll }).holds(t, attacks...)
	labelled("that the namespace is not infrastructure", "plain", model.LabelInfrastructure, "true").holds(t, attacks...)
}

// TestFacesFromANetwork: pods of one tenant's Network dial the faces of another's, of both families. What judges is the porthole
// where a packet leaves, its node's table, and the porthole where it would arrive.
func TestFacesFromANetwork(t *testing.T) {
	var attacks []attack
	for _, name := range []string{"attackers/weak", "attackers/strong"} {
		for _, to := range []string{"victims/near", "victims/far"} {
			for _, face := range faces(member(t, to)) {
				for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP} {
					attacks = append(attacks, attack{
						fmt.Sprintf("%s dials %s, %s, by %s", name, to, face, protocol), dials(member(t, name), face, 0, protocol),
					})
				}
			}
		}
	}
	// Both directions are judged at both ends: what is asked, and what is answered.
	open := func(network string) (commands [][]string) {
		nft := []string{"ip", "netns", "exec", doorOf(t, network), "nft"}
		for _, chain := range []string{"in", "out"} {
			commands = append(commands, append(slices.Clone(nft), "flush", "chain", "inet", "atoll", chain),
				append(slices.Clone(nft), "add", "rule", "inet", "atoll", chain, "accept"))
		}
		return commands
	}
	asking, asked := open("attackers"), open("victims")
	node := [][]string{{"nft", "flush", "chain", "inet", "atoll", "from-porthole"}, {"nft", "flush", "chain", "inet", "atoll", "to-porthole"}}
	together("the chains of portholes and nodes, and the rows that let nothing in from faces",
		onNode("n1", slices.Concat(asking, asked, node)...), onNode("n2", slices.Concat(asked, node)...),
		rows("", "clear", "Logical_Switch", "attackers/a", "acls", "--", "clear", "Logical_Switch", "victims/a", "acls"),
	).holds(t, attacks...)
}

// doorOf is the network namespace of a Network's porthole, on each node the same.
func doorOf(t *testing.T, network string) string {
	t.Helper()
	n, err := env.Clients.Network(t.Context(), network)
	if err != nil {
		t.Fatal(err)
	}
	return porthole.IDOf(string(n.UID)).Name()
}

// TestSlicesByHand: from inside a Network, by a Service whose slice somebody wrote by hand, to a victim's face, a kubelet and a
// pod of the default Network. The last two are open with infraAccess: direct; a face never is, but for one of the Network's own pods.
func TestSlicesByHand(t *testing.T) {
	weak, strong := member(t, "attackers/weak"), member(t, "attackers/strong")
	face := ledBy(t, "attackers", "a-face", faces(member(t, "victims/far"))[0])
	pod := ledBy(t, "attackers", "a-pod", faces(member(t, "plain/far"))[0])
	own := ledBy(t, "attackers", "of-ours", faces(member(t, "attackers/far"))[0])
	never := []attack{
		{"a victim's face", dials(weak, face, 0, wire.TCP)},
		{"a victim's face, by a pod with rights", dials(strong, face, 0, wire.TCP)},
	}
	open := []attack{
		{"a pod of the default Network", dials(weak, pod, 0, wire.TCP)},
		{"a pod of the default Network, by a pod with rights", dials(strong, pod, 0, wire.TCP)},
		{"that pod itself", dials(weak, faces(member(t, "plain/far"))[0], 0, wire.TCP)},
	}
	direct := spec("infraAccess", "attackers", func(s *v1alpha1.NetworkSpec) { s.InfraAccess = v1alpha1.InfraDirect })
	direct.holds(t, open...)
	// Slices by hand lead somewhere: the Network's own pods, and with direct access more. None leads to another Network.
	back := direct.out(t)
	defer back()
	cluster.Eventually(t, cluster.Patience, "slices by hand lead to whom they may", func(ctx context.Context) error {
		return all(ctx, append(open, attack{"a pod of the Network", dials(weak, own, 0, wire.TCP)}), succeeded)
	})
	if err := all(t.Context(), never, held); err != nil {
		t.Error(err)
	}
}

// TestNodePortsByHand: a user who may write everything in a namespace uses a node port of the namespace's Service to lead outside
// traffic to others' pods: by a slice, and by Endpoints, from which Kubernetes makes a slice.
func TestNodePortsByHand(t *testing.T) {
	owner := everything(t)
	victim, node := faces(member(t, "victims/far"))[0].String(), env.NodeAddresses(t, "n1")[0]
	port, yes := int32(wire.DefaultPort), true
	byHand := func(name, address string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}}},
			Ports:       []discoveryv1.EndpointPort{{Port: &port}},
		}
	}
	old := func(name, address string) *corev1.Endpoints { //nolint:staticcheck // Kubernetes reads them as before.
		return &corev1.Endpoints{ //nolint:staticcheck // As above.
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Subsets: []corev1.EndpointSubset{{ //nolint:staticcheck // As above.
				Addresses: []corev1.EndpointAddress{{IP: address}}, Ports: []corev1.EndpointPort{{Port: port}},
			}},
		}
	}
	slices := owner.DiscoveryV1().EndpointSlices("attackers")
	endpoints := owner.CoreV1().Endpoints("attackers")
	write := map[string]func(ctx context.Context, name string, options metav1.CreateOptions) error{
		"a slice": func(ctx context.Context, name string, options metav1.CreateOptions) error {
			_, err := slices.Create(ctx, byHand(name, victim), options)
			return err
		},
		"Endpoints": func(ctx context.Context, name string, options metav1.CreateOptions) error {
			_, err := endpoints.Create(ctx, old(name, victim), options)
			return err
		},
	}
	var attacks []attack
	for what, write := range write {
		name := strings.ToLower(strings.ReplaceAll(what, " ", "-")) + "-by-hand"
		// Without a selector, so that nobody else writes for it.
		service, err := owner.CoreV1().Services("attackers").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: port}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := cluster.AfterTest()
			defer cancel()
			if err := env.Clients.Kube.CoreV1().Services("attackers").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		at := netip.AddrPortFrom(node, uint16(service.Spec.Ports[0].NodePort))
		attacks = append(attacks, attack{"the outside dials a victim's face by a node port and " + what, outsideBy(at, what, name, write)})
	}
	kubelet := env.NodeAddresses(t, "n2")[0].String()
	plain := faces(member(t, "plain/far"))[0].String()
	for who, address := range map[string]string{"a node": kubelet, "a pod of the default Network": plain} {
		attacks = append(attacks,
			attack{"a slice with " + who, writes(func(ctx context.Context) error {
				_, err := slices.Create(ctx, byHand("dry", address), metav1.CreateOptions{DryRun: dry()})
				return err
			})},
			attack{"Endpoints with " + who, writes(func(ctx context.Context) error {
				_, err := endpoints.Create(ctx, old("dry", address), metav1.CreateOptions{DryRun: dry()})
				return err
			})},
		)
	}
	policy("atoll-endpoint-addresses").holds(t, attacks...)
}

// outsideBy writes what leads to a victim, and dials a node port from outside of the cluster until that has come to be. What was
// written is taken away again.
func outsideBy(at netip.AddrPort, what, name string, write func(context.Context, string, metav1.CreateOptions) error) attempt {
	return func(ctx context.Context) (got string, err error) {
		switch err := write(ctx, name, metav1.CreateOptions{}); {
		case apierrors.IsForbidden(err):
			return "", nil
		case err != nil:
			return "", err
		}
		defer func() {
			late, cancel := cluster.AfterTest()
			defer cancel()
			if what == "a slice" {
				err = errors.Join(err, env.Clients.Kube.DiscoveryV1().EndpointSlices("attackers").Delete(late, name, metav1.DeleteOptions{}))
			} else {
				err = errors.Join(err, env.Clients.Kube.CoreV1().Endpoints("attackers").Delete(late, name, metav1.DeleteOptions{}))
			}
		}()
		for {
			conn, err := env.DialFrom(ctx, sandbox.Outside, "tcp", at.String())
			if err == nil {
				return "connected", conn.Close()
			}
			if err := pause(ctx, err); err != nil {
				return "", err
			}
		}
	}
}
