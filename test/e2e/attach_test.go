//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// TestDefaultNetwork: pods for which nobody chose a Network meet in the default one, and do not reach the others.
func TestDefaultNetwork(t *testing.T) {
	t.Parallel()
	env.Namespace(t, "plain", "")
	pods := env.WaitReady(t,
		env.Pod(t, cluster.PodSpec{Namespace: "plain", Name: "a", Node: "n1"}),
		env.Pod(t, cluster.PodSpec{Namespace: "plain", Name: "b", Node: "n2"}),
	)
	env.Reach(t, pods[0], pods[1])
	env.Reach(t, pods[1], pods[0])
	for _, p := range probeAll(t, pods[0], netip.MustParseAddr("10.0.0.10")) {
		if p.Answered {
			t.Errorf("10.0.0.10 answers in the default Network: %+v", p)
		}
	}
}

// TestDualStack: pods of a Network with IPv4 and IPv6 reach each other by both, across nodes and subnets.
func TestDualStack(t *testing.T) {
	t.Parallel()
	env.Network(t, "dual", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{
		{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}},
		{Name: "b", CIDRs: []v1alpha1.CIDR{"10.0.1.0/24", "fd00:10:0:1::/64"}},
	}})
	env.Namespace(t, "dual", "dual")
	pods := env.WaitReady(t,
		env.Pod(t, cluster.PodSpec{Namespace: "dual", Name: "a1", Node: "n1"}),
		env.Pod(t, cluster.PodSpec{Namespace: "dual", Name: "a2", Node: "n2", NICs: `[{"ip":"fd00:10::99"}]`}),
		env.Pod(t, cluster.PodSpec{Namespace: "dual", Name: "b", Node: "n3", NICs: `[{"subnet":"b"}]`}),
	)
	for _, from := range pods {
		for _, to := range pods {
			if from == to {
				continue
			}
			addresses := cluster.AttachmentOf(t, to).Addresses
			if len(addresses) != 2 {
				t.Fatalf("%s has addresses %v, want one of each family", to.Name, addresses)
			}
			for _, address := range addresses {
				what := fmt.Sprintf("%s -> %s %s", from.Name, to.Name, address.Addr())
				cluster.Eventually(t, cluster.Patience, what, func(context.Context) error {
					for _, p := range probeAll(t, from, address.Addr()) {
						if (p.Answerer != wire.Identity{}) && p.Answerer.UID != string(to.UID) {
							t.Fatalf("%s: another answered: %+v", what, p)
						}
						if !p.Answered {
							return fmt.Errorf("%+v", p)
						}
					}
					return nil
				})
			}
		}
	}
	if got := cluster.AttachmentOf(t, pods[1]).Addresses; got[0].Addr().String() != "fd00:10::99" && got[1].Addr().String() != "fd00:10::99" {
		t.Errorf("a2 asked for fd00:10::99 and has %v", got)
	}
}

// TestSuccessor: a pod that is deleted without grace and made again under its old name and address, on another node,
// has the port to itself: packets go to the new one only.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	env.Network(t, "heir", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, "heir", "heir")
	witness := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: "heir", Name: "witness", Node: "n3"}))[0]
	var last *corev1.Pod
	for _, node := range []string{"n1", "n2", "n1"} {
		spec := cluster.PodSpec{Namespace: "heir", Name: "heir", Node: node, NICs: `[{"ip":"10.0.0.7"}]`}
		cluster.Eventually(t, cluster.Patience, "make the next pod heir/heir", func(ctx context.Context) error {
			_, err := env.Clients.Kube.CoreV1().Pods("heir").Create(ctx, spec.Object(), metav1.CreateOptions{})
			return err
		})
		last = env.WaitReady(t, spec.Object())[0]
		env.Reach(t, witness, last)
		now := int64(0)
		err := env.Clients.Kube.CoreV1().Pods("heir").Delete(t.Context(), "heir", metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil {
			t.Fatal(err)
		}
	}
	cluster.Eventually(t, cluster.Patience, "no port of heir/heir", func(context.Context) error {
		if port := env.NB.Port(t, "heir/heir"); port != nil {
			return fmt.Errorf("%+v", port)
		}
		return nil
	})
	cluster.Eventually(t, cluster.Patience, "10.0.0.7 silent", func(context.Context) error {
		for _, p := range probeAll(t, witness, netip.MustParseAddr("10.0.0.7")) {
			if p.Answered {
				return fmt.Errorf("%+v", p)
			}
		}
		return nil
	})
}

// probeAll probes an address from a pod by all protocols.
func probeAll(t *testing.T, from *corev1.Pod, to netip.Addr) map[string]wire.Result {
	t.Helper()
	run := cluster.NewToken(t)
	var targets []wire.Target
	for _, protocol := range []wire.Protocol{wire.ICMP, wire.TCP, wire.UDP} {
		targets = append(targets, wire.Target{Address: to, Protocol: protocol, Token: run + "-" + string(protocol)})
	}
	results, err := matrix.Probe(t.Context(), env.Exec, from.Namespace, from.Name, targets)
	if err != nil {
		t.Fatal(err)
	}
	return results
}
