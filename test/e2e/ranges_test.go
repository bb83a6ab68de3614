//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// TestServiceRanges: two Networks with the same service ranges have the same address for a Service of the same name. Each is
// answered by its own pods, by name and by address, beside the ClusterIP; what nobody has of a range is refused, and never
// leaves the Network.
func TestServiceRanges(t *testing.T) {
	t.Parallel()
	spaces := []string{"ranges-a", "ranges-b"}
	servers, clients, services := map[string]*corev1.Pod{}, map[string]*corev1.Pod{}, map[string]*corev1.Service{}
	for _, ns := range spaces {
		env.Network(t, ns, v1alpha1.NetworkSpec{
			Subnets:      []v1alpha1.Subnet{{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}}},
			ServiceCIDRs: []v1alpha1.CIDR{"10.9.0.0/24", "fd09::/112"},
		})
		env.Namespace(t, ns, ns)
		services[ns] = rangedService(t, ns)
		servers[ns] = env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "web-0", App: "web", Node: "n1", NICs: `[{"ip":"10.0.0.40"}]`})
		clients[ns] = env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "client", Node: "n2", NICs: `[{"ip":"10.0.0.50"}]`})
	}
	own := map[string][]netip.Addr{}
	for _, ns := range spaces {
		servers[ns], clients[ns] = env.WaitReady(t, servers[ns])[0], env.WaitReady(t, clients[ns])[0]
		own[ns] = ownAddresses(t, services[ns])
		if len(own[ns]) != 2 || own[ns][0] != netip.MustParseAddr("10.9.0.80") || !netip.MustParsePrefix("fd09::/112").Contains(own[ns][1]) {
			t.Fatalf("%s has the addresses %v", ns, own[ns])
		}
	}
	if !slices.Equal(own[spaces[0]], own[spaces[1]]) {
		t.Fatalf("they are not the same: %v", own)
	}
	for _, ns := range spaces {
		uid := string(servers[ns].UID)
		for _, client := range []*corev1.Pod{clients[ns], servers[ns]} {
			env.Resolves(t, client, "web", own[ns])
			var answered []wire.Target
			for _, address := range append(clusterIPs(services[ns]), own[ns]...) {
				for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP} {
					answered = append(answered, wire.Target{Address: address, Protocol: protocol, Port: 80})
				}
			}
			env.AwaitProbes(t, client, answered, func(r wire.Result) error {
				if !r.Answered || r.Answerer.UID != uid {
					return fmt.Errorf("%+v answered, want %s", r, uid)
				}
				return nil
			})
			// Addresses and ports that no Service has, though the Network's pods reach the outside.
			env.AwaitProbes(t, client, []wire.Target{
				{Address: netip.MustParseAddr("10.9.0.99"), Protocol: wire.TCP, Port: 80},
				{Address: netip.MustParseAddr("fd09::99"), Protocol: wire.TCP, Port: 80},
				{Address: own[ns][0], Protocol: wire.TCP, Port: 81},
				{Address: own[ns][1], Protocol: wire.TCP, Port: 81},
			}, func(r wire.Result) error {
				if r.Answered || !strings.Contains(r.Error, "refused") {
					return fmt.Errorf("%+v, want a refusal", r)
				}
				return nil
			})
		}
	}

	// What somebody takes away comes back as it was; and a range that goes leaves the ClusterIP.
	ns := spaces[0]
	_, err := env.Clients.Kube.CoreV1().Services(ns).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+model.AnnotationServiceAddresses+`":null}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if again := ownAddresses(t, services[ns]); !slices.Equal(again, own[ns]) {
		t.Errorf("it has %v after the annotation was removed, and had %v", again, own[ns])
	}
	env.ChangeNetwork(t, ns, func(s *v1alpha1.NetworkSpec) { s.ServiceCIDRs = nil })
	env.Resolves(t, clients[ns], "web", clusterIPs(services[ns]))
	env.Resolves(t, clients[spaces[1]], "web", own[spaces[1]])
	env.AwaitProbes(t, clients[ns], []wire.Target{{Address: own[ns][0], Protocol: wire.TCP, Port: 80}}, func(r wire.Result) error {
		if r.Answered {
			return fmt.Errorf("%s answered at an address that it has no more", r.Answerer)
		}
		return nil
	})
}

// rangedService makes a Service web of both families that asks for an address of its Network's range.
func rangedService(t *testing.T, namespace string) *corev1.Service {
	t.Helper()
	both := corev1.IPFamilyPolicyRequireDualStack
	port := func(name string, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Protocol: protocol, Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)}
	}
	s, err := env.Clients.Kube.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{model.AnnotationServiceIPs: "10.9.0.80"}},
		Spec: corev1.ServiceSpec{
			IPFamilyPolicy: &both, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{port("tcp", corev1.ProtocolTCP), port("udp", corev1.ProtocolUDP)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ownAddresses waits for what the controller writes on a Service.
func ownAddresses(t *testing.T, service *corev1.Service) []netip.Addr {
	t.Helper()
	var out []netip.Addr
	cluster.Eventually(t, cluster.Patience, "addresses of Service "+service.Namespace+"/"+service.Name, func(ctx context.Context) error {
		now, err := env.Clients.Kube.CoreV1().Services(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		a := intake.ServiceAddresses(now.Annotations[model.AnnotationServiceAddresses], string(now.UID))
		if a == nil {
			return errors.New("it has none")
		}
		out = a.Addresses
		return nil
	})
	return out
}

// clusterIPs are the addresses by which all of the cluster knows a Service.
func clusterIPs(s *corev1.Service) []netip.Addr {
	var out []netip.Addr
	for _, ip := range s.Spec.ClusterIPs {
		out = append(out, netip.MustParseAddr(ip))
	}
	return out
}
