//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/policytrace"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// TestRouted: two Networks that mode Routed joins know each other's pods by their own addresses and by those that Kubernetes
// knows, on two nodes; a third that is joined to the one does not reach the other; and what cannot be joined says why. By face
// they know own addresses where that is offered, of both families, and answers come from these.
func TestRouted(t *testing.T) {
	t.Parallel()
	const shop, near, third, same = "routed-shop", "routed-near", "routed-third", "routed-same"
	pods := map[string]*corev1.Pod{}
	for i, ns := range []string{shop, near, third} {
		spec := v1alpha1.NetworkSpec{
			Subnets: []v1alpha1.Subnet{
				{Name: "a", CIDRs: []v1alpha1.CIDR{v1alpha1.CIDR(fmt.Sprintf("10.3%d.0.0/24", i)), v1alpha1.CIDR(fmt.Sprintf("fd00:3%d::/64", i))}},
			},
		}
		switch ns {
		case shop:
			spec.CompatibleWith = []v1alpha1.CompatiblePeer{{Network: near, Mode: v1alpha1.CompatibilityRouted}}
		case near:
			spec.CompatibleWith = []v1alpha1.CompatiblePeer{{Network: third, Mode: v1alpha1.CompatibilityRouted}}
		}
		env.Network(t, ns, spec)
		env.Namespace(t, ns, ns)
		pods[ns] = env.Pod(t, cluster.PodSpec{
			Namespace: ns, Name: "web", App: "web", Node: fmt.Sprintf("n%d", i%2+1), NICs: fmt.Sprintf(`[{"ip":"10.3%d.0.40"}]`, i),
		})
	}
	service := env.Service(t, shop, "web", corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "echo", Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)}},
	})
	for ns := range pods {
		pods[ns] = env.WaitReady(t, pods[ns])[0]
	}
	own := map[string]netip.Addr{
		shop: netip.MustParseAddr("10.30.0.40"), near: netip.MustParseAddr("10.31.0.40"), third: netip.MustParseAddr("10.32.0.40"),
	}
	reaches := func(from, to string, a netip.Addr, port uint16, want bool) {
		t.Helper()
		targets := []wire.Target{{Address: a, Protocol: wire.TCP, Port: port}}
		if port == wire.DefaultPort {
			// The Service has TCP alone.
			targets = append(targets, wire.Target{Address: a, Protocol: wire.UDP, Port: port})
		}
		env.AwaitProbes(t, pods[from], targets, func(r wire.Result) error {
			// Without a way to it, an address is one outside of the cluster.
			if is := r.Answered && r.Answerer.UID == string(pods[to].UID); is != want {
				return fmt.Errorf("answered by %s: %t, want %t (%s)", to, is, want, r.Error)
			}
			return nil
		})
	}
	reaches(near, shop, own[shop], wire.DefaultPort, true)
	reaches(near, shop, netip.MustParseAddr(pods[shop].Status.PodIP), wire.DefaultPort, true)
	reaches(near, shop, netip.MustParseAddr(service.Spec.ClusterIP), 80, true)
	reaches(third, near, own[near], wire.DefaultPort, true)
	reaches(shop, near, own[near], wire.DefaultPort, false)
	reaches(third, shop, own[shop], wire.DefaultPort, false)
	says := func(network, other, want string) {
		t.Helper()
		cluster.Eventually(t, cluster.Patience, network+" says of "+other+" "+want, func(ctx context.Context) error {
			n, err := env.Clients.Network(ctx, network)
			if err != nil {
				return err
			}
			for _, c := range n.Status.Compatibility {
				got := fmt.Sprintf("%s %s %s", c.Mode, c.State, c.Reason)
				if c.Addresses && c.Mode == v1alpha1.CompatibilityByFace {
					got += " addresses"
				}
				if got += fmt.Sprintf(", %d joined", n.Status.Joined); c.Network == other && got != want {
					return fmt.Errorf("it says %q: %s", got, c.Message)
				} else if c.Network == other {
					return nil
				}
			}
			return fmt.Errorf("it says nothing of it: %+v", n.Status.Compatibility)
		})
	}
	says(shop, near, "Routed Active , 3 joined")
	says(third, near, "Routed Active , 3 joined")

	// By face, the own addresses are nobody's there, and nothing else changes.
	env.ChangeNetwork(t, shop, func(s *v1alpha1.NetworkSpec) { s.CompatibleWith[0].Mode = v1alpha1.CompatibilityByFace })
	reaches(near, shop, own[shop], wire.DefaultPort, false)
	reaches(near, shop, netip.MustParseAddr(service.Spec.ClusterIP), 80, true)
	says(shop, near, "ByFace Active , 0 joined")
	env.ChangeNetwork(t, shop, func(s *v1alpha1.NetworkSpec) { s.CompatibleWith[0].Addresses = true })
	reaches(near, shop, own[shop], wire.DefaultPort, true)
	says(shop, near, "ByFace Active  addresses, 0 joined")
	says(near, shop, "ByFace Active  addresses, 2 joined")
	var echoes []wire.Target
	for _, a := range cluster.AddressesOfPod(t, pods[shop]) {
		for _, p := range []wire.Protocol{wire.TCP, wire.UDP} {
			echoes = append(echoes, wire.Target{Address: a, Protocol: p, Port: wire.DefaultPort})
		}
		echoes = append(echoes, wire.Target{Address: a, Protocol: wire.ICMP})
	}
	if len(echoes) != 6 {
		t.Fatalf("the pod has %d addresses to ask at", len(echoes)/3)
	}
	env.AwaitProbes(t, pods[near], echoes, func(r wire.Result) error {
		if !r.Answered {
			return errors.New(r.Error)
		}
		return nil
	})
	reaches(shop, near, own[near], wire.DefaultPort, false)
	reaches(third, shop, own[shop], wire.DefaultPort, false)
	var followed policytrace.Trace
	err := policyCommand(t.Context(), &followed, "trace", near+"/web", own[shop].String(), "--port", strconv.Itoa(wire.DefaultPort))
	if err != nil || followed.Dropped() > 0 || len(followed.Paths) != 1 || followed.Paths[0].To != pods[shop].Status.PodIP {
		t.Errorf("a trace says %+v, %v", followed, err)
	}

	// What has the same addresses is refused, and its owner hears which.
	env.Network(t, same, v1alpha1.NetworkSpec{
		Subnets:        []v1alpha1.Subnet{{Name: "a", CIDRs: []v1alpha1.CIDR{"10.31.0.0/25"}}},
		CompatibleWith: []v1alpha1.CompatiblePeer{{Network: near, Mode: v1alpha1.CompatibilityRouted}},
	})
	says(same, near, "Routed Refused "+model.ReasonAddressConflict+", 0 joined")
	env.ChangeNetwork(t, same, func(s *v1alpha1.NetworkSpec) {
		s.CompatibleWith[0].Mode, s.CompatibleWith[0].Addresses = v1alpha1.CompatibilityByFace, true
	})
	says(same, near, "ByFace Active "+model.ReasonAddressConflict+", 0 joined")
}
