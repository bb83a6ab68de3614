//go:build e2e

package hostile

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
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
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{endpoint.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}}},
		Ports:     []discoveryv1.EndpointPort{{Port: &port}},
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

// TestSlicesByHand: from inside a Network, by a Service whose slice somebody wrote by hand, to a victim's face, a kubelet and a
// pod of the default Network. The last two are open with infraAccess: direct; a face never is.
func TestSlicesByHand(t *testing.T) {
	weak, strong := member(t, "attackers/weak"), member(t, "attackers/strong")
	face := ledBy(t, "attackers", "a-face", faces(member(t, "victims/far"))[0])
	pod := ledBy(t, "attackers", "a-pod", faces(member(t, "plain/far"))[0])
	never := []attack{
		{"a victim's face", dials(weak, face, 0, wire.TCP)},
		{"a victim's face, by a pod with rights", dials(strong, face, 0, wire.TCP)},
	}
	d := spec("infraAccess", "attackers", func(s *v1alpha1.NetworkSpec) { s.InfraAccess = v1alpha1.InfraDirect })
	d.holds(t,
		attack{"a pod of the default Network", dials(weak, pod, 0, wire.TCP)},
		attack{"a pod of the default Network, by a pod with rights", dials(strong, pod, 0, wire.TCP)},
		attack{"that pod itself", dials(weak, faces(member(t, "plain/far"))[0], 0, wire.TCP)},
	)
	if err := all(t.Context(), never, held); err != nil {
		t.Error(err)
	}
}
