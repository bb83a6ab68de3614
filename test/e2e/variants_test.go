//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
)

// TestServiceVariants: what a Service's fields and a pod's readiness change, in a vpc Network and in the default one.
func TestServiceVariants(t *testing.T) {
	t.Parallel()
	env.Network(t, "variants-vpc", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	for ns, network := range map[string]string{"variants-vpc": "variants-vpc", "variants-flat": ""} {
		env.Namespace(t, ns, network)
		object := cluster.PodSpec{Namespace: ns, Name: "unready", App: "unready", Node: "n2"}.Object()
		container := &object.Spec.Containers[0]
		container.StartupProbe, container.ReadinessProbe = nil, quick(corev1.ProbeHandler{
			TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)},
		})
		unready := env.Make(t, object)
		client := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "client", Node: "n1", App: "client"}))[0]

		port := []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)}}
		patient := env.Service(t, ns, "unready", corev1.ServiceSpec{Ports: port})
		hasty := variant(t, ns, "hasty", corev1.ServiceSpec{Ports: port, Selector: unready.Labels, PublishNotReadyAddresses: true})
		itself := env.Service(t, ns, "client", corev1.ServiceSpec{Ports: port})
		beyond := variant(t, ns, "beyond", corev1.ServiceSpec{Ports: port})
		outsideBehind(t, beyond)
		here := corev1.ServiceInternalTrafficPolicyLocal
		local := variant(t, ns, "local", corev1.ServiceSpec{Ports: port, Selector: client.Labels, InternalTrafficPolicy: &here})
		far := variant(t, ns, "far", corev1.ServiceSpec{
			Ports: port, Selector: unready.Labels, PublishNotReadyAddresses: true, InternalTrafficPolicy: &here,
		})

		for _, c := range []struct {
			what    string
			service *corev1.Service
			// uid of who answers; empty: the client is refused at once.
			uid string
		}{
			{"a pod that is not Ready", patient, ""},
			{"a pod that is not Ready, published all the same", hasty, string(unready.UID)},
			{"the client itself", itself, string(client.UID)},
			{"an address outside of the cluster", beyond, sandbox.Outside},
			{"its own node alone, where there is one", local, string(client.UID)},
			{"its own node alone, where there is none", far, ""},
		} {
			cluster.Eventually(t, cluster.Patience, ns+": "+c.what, func(ctx context.Context) error {
				target := wire.Target{Address: netip.MustParseAddr(c.service.Spec.ClusterIP), Protocol: wire.TCP, Port: 80, Token: cluster.NewToken(t)}
				results, err := matrix.Probe(ctx, env.Exec, ns, client.Name, []wire.Target{target})
				if err != nil {
					return err
				}
				r := results[target.Token]
				if r.Answered && r.Answerer.UID != c.uid {
					t.Fatalf("%s: %s: %s answers", ns, c.what, r.Answerer)
				}
				// What has no endpoint on the client's node kube-proxy drops, which serves the default Network's pods there.
				if r.Answered != (c.uid != "") || !r.Answered && c.service != far && !strings.Contains(r.Error, "refused") {
					return fmt.Errorf("%+v", r)
				}
				return nil
			})
		}
	}
}

// variant makes a Service as it is written.
func variant(t *testing.T, ns, name string, spec corev1.ServiceSpec) *corev1.Service {
	t.Helper()
	service, err := env.Clients.Kube.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make Service %s/%s: %v", ns, name, err)
	}
	return service
}

// outsideBehind writes a slice by hand: a Service without a selector leads to the outside.
func outsideBehind(t *testing.T, service *corev1.Service) {
	t.Helper()
	number := int32(wire.DefaultPort)
	_, err := env.Clients.Kube.DiscoveryV1().EndpointSlices(service.Namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service.Name, Labels: map[string]string{discoveryv1.LabelServiceName: service.Name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{sandbox.OutsideAddresses()[0].String()}}},
		Ports:       []discoveryv1.EndpointPort{{Port: &number}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
