//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/policytrace"
	"github.com/atoll-net/atoll/pkg/inspect/verdicts"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
)

// policyCommand runs `atoll policy` in the control plane's namespace, and reads what it prints.
func policyCommand(ctx context.Context, into any, args ...string) error {
	args = append(append([]string{"policy"}, args...), "-o", "json", "--kubeconfig", env.Box.Kubeconfig())
	out, err := env.Box.Exec(ctx, sandbox.Central, append([]string{filepath.Join(env.Options.Bin, "atoll")}, args...)...)
	if bad := json.Unmarshal(out, into); bad != nil {
		return fmt.Errorf("atoll %v: %w: %s", args, err, out)
	}
	return nil
}

// TestPolicyVerdicts: whoever runs the cluster is told by name what decides about a packet, and how many packets each policy
// admitted and isolation dropped, from all nodes by way of the API server.
func TestPolicyVerdicts(t *testing.T) {
	const ns = "verdicts"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, ns, ns)
	pods := env.WaitReady(t,
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "db", Node: "n2", App: "db"}),
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "web", Node: "n1", App: "web"}),
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "stranger", Node: "n1", App: "stranger"}),
	)
	db, web, stranger := pods[0], pods[1], pods[2]
	port, tcp := intstr.FromInt32(wire.DefaultPort), corev1.ProtocolTCP
	_, err := env.Clients.Kube.NetworkingV1().NetworkPolicies(ns).Create(t.Context(), &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "db-from-web"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}},
				Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &port}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const policy = "NetworkPolicy/" + ns + "/db-from-web"
	cluster.Eventually(t, cluster.Patience, "atoll policy trace names the policy and the isolation", func(ctx context.Context) error {
		number := fmt.Sprint(wire.DefaultPort)
		var allowed, dropped policytrace.Trace
		if err := policyCommand(ctx, &allowed, "trace", ns+"/web", ns+"/db", "--port", number); err != nil {
			return err
		}
		if err := policyCommand(ctx, &dropped, "trace", ns+"/stranger", ns+"/db", "--port", number); err != nil {
			return err
		}
		if at := allowed.Paths[0].Steps[1]; at.Verdict != "allow" || at.Policy != policy || at.Rule != "0" {
			return fmt.Errorf("of web: %+v", at)
		}
		if at := dropped.Paths[0].Steps[1]; at.Verdict != "drop" || len(at.Isolating) != 1 || at.Isolating[0] != policy {
			return fmt.Errorf("of the stranger: %+v", at)
		}
		return nil
	})
	target := wire.Target{Address: cluster.AttachmentOf(t, db).Addresses[0].Addr(), Protocol: wire.TCP}
	arrives(t, web, db, target, nil)
	silent(t, stranger, target)
	cluster.Eventually(t, cluster.Patience, "atoll policy verdicts counts both", func(ctx context.Context) error {
		var v verdicts.Verdicts
		if err := policyCommand(ctx, &v, "verdicts", "--network", ns); err != nil {
			return err
		}
		counts := map[string]uint64{}
		for _, r := range v.Rows {
			counts[r.Policy+" "+r.Verdict+" on "+r.Node] += r.Packets
		}
		if v.Nodes != len(env.Box.Nodes()) || counts[policy+" allow on n2"] == 0 || counts[nb.Isolation+" drop on n2"] == 0 {
			return fmt.Errorf("%d nodes: %v", v.Nodes, counts)
		}
		if len(v.Isolated) != 1 || v.Isolated[0].Pod != ns+"/db" || len(v.Isolated[0].Policies) != 1 || v.Isolated[0].Policies[0] != policy {
			return fmt.Errorf("isolated: %+v", v.Isolated)
		}
		return nil
	})
}

// TestBlocksMeanOtherNodes: a policy's ipBlock admits what another node sends, to a pod's face, by the address of that node which
// Kubernetes shows, and its except keeps it off. A third node is the control.
func TestBlocksMeanOtherNodes(t *testing.T) {
	t.Parallel()
	const ns = "blocks"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, ns, ns)
	db := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "db", Node: "n2", App: "db"}))[0]
	face := netip.AddrPortFrom(netip.MustParseAddr(db.Status.PodIP), wire.DefaultPort)
	client, known := env.Clients.Kube.NetworkingV1().NetworkPolicies(ns), env.NodeAddresses(t, "n1")[0].String()+"/32"
	admits := func(block networkingv1.IPBlock) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "nodes"}, Spec: networkingv1.NetworkPolicySpec{
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{IPBlock: &block}}}},
		}}
	}
	refused := func(node string) {
		t.Helper()
		cluster.Eventually(t, cluster.Patience, node+" does not reach "+face.String(), func(ctx context.Context) error {
			conn, err := env.DialFrom(ctx, node, "tcp", face.String())
			if err != nil {
				return nil //nolint:nilerr // That nobody answers is what is waited for.
			}
			_ = conn.Close()
			return errors.New("it does")
		})
	}
	if _, err := client.Create(t.Context(), admits(networkingv1.IPBlock{CIDR: known}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	refused("n3")
	answers(t, "tcp", "n1", face, string(db.UID))
	if _, err := client.Update(t.Context(), admits(networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{known}}),
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	refused("n1")
	answers(t, "tcp", "n3", face, string(db.UID))
}
