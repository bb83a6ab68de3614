//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	inspectapi "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// proved are explanations with their packets.
type proved struct {
	Reached bool                         `json:"reached"`
	Sent    []inspectapi.ExplanationSent `json:"sent"`
}

// prove explains and sends. Its error is that it could not; how the command ends is compared with what it says.
func (c *suite) prove(ctx context.Context, kubeconfig string, ask ...string) (inspectapi.ExplanationSent, error) {
	none := inspectapi.ExplanationSent{}
	out, err := c.atoll(ctx, kubeconfig, append([]string{"explain", "--send", "-o", "json"}, ask...)...)
	var said proved
	if decoded := json.NewDecoder(strings.NewReader(out)).Decode(&said); decoded != nil {
		return none, fmt.Errorf("%v: %w: %s", ask, err, out)
	}
	if len(said.Sent) != 1 {
		return none, fmt.Errorf("%v: %d packets are sent: %w: %s", ask, len(said.Sent), err, out)
	}
	if s := said.Sent[0]; (err == nil) != (said.Reached && s.Verdict == inspectapi.SentAsExplained) {
		return s, fmt.Errorf("%v: reached is %t, it is %s, and it ends with %w", ask, said.Reached, s.Verdict, err)
	}
	return said.Sent[0], nil
}

// links are the pods whose links a packet, or its answer, was at, in their order.
func links(points []inspectapi.ExplanationPoint) (out []string) {
	for _, p := range points {
		for _, way := range []string{"from", "to"} {
			if pod, is := strings.CutPrefix(p.Where, way+" the link of pod "); is {
				out = append(out, way+" "+pod+" on "+p.Node+" in "+p.Network)
			}
		}
	}
	return out
}

// tunnelled reports whether a packet was seen in a tunnel on each of the nodes.
func tunnelled(points []inspectapi.ExplanationPoint, nodes ...string) bool {
	for _, n := range nodes {
		if !slices.ContainsFunc(points, func(p inspectapi.ExplanationPoint) bool {
			return p.Node == n && strings.Contains(p.Where, "tunnel from ")
		}) {
			return false
		}
	}
	return true
}

// TestSendProvesExplanations: in Networks of the same addresses a real packet is seen at the link of the pod in the right
// Network, in the tunnel between its nodes, and its answer the same way back; where a policy stops it, it is seen at the sender's
// link last; where the node is broken, it differs from what is explained. Who has no part in the other Network is told of none of
// its nodes and pods.
func TestSendProvesExplanations(t *testing.T) {
	t.Parallel()
	const red, blue, guest = "send-red", "send-blue", "send-guest"
	env.Network(t, guest, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Network(t, red, v1alpha1.NetworkSpec{
		Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}, CompatibleWith: []v1alpha1.CompatiblePeer{{Network: guest}},
	})
	env.Network(t, blue, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	for _, ns := range []string{red, blue, guest} {
		env.Namespace(t, ns, ns)
	}
	const address = "10.0.0.72"
	pods := env.WaitReady(t,
		env.Pod(t, cluster.PodSpec{Namespace: red, Name: "one", Node: "n1", NICs: `[{"ip":"10.0.0.71"}]`}),
		env.Pod(t, cluster.PodSpec{Namespace: red, Name: "two", Node: "n2", App: "two", NICs: `[{"ip":"` + address + `"}]`}),
		env.Pod(t, cluster.PodSpec{Namespace: blue, Name: "one", Node: "n1", NICs: `[{"ip":"10.0.0.71"}]`}),
		env.Pod(t, cluster.PodSpec{Namespace: blue, Name: "two", Node: "n3", NICs: `[{"ip":"` + address + `"}]`}),
		env.Pod(t, cluster.PodSpec{Namespace: guest, Name: "one", Node: "n1", NICs: `[{"ip":"10.0.0.71"}]`}))
	admins := map[string]string{}
	for _, ns := range []string{red, blue, guest} {
		admins[ns] = env.named(t, ns, "prover", "admin")
	}
	viewer := env.named(t, red, "viewer", "view")

	for namespace, node := range map[string]string{red: "n2", blue: "n3"} {
		for _, how := range [][]string{{"--port", "8080"}, {"--protocol", "icmp"}} {
			cluster.Eventually(t, cluster.Patience,
				fmt.Sprintf("%s: a packet gets to %s %v", namespace, address, how), func(ctx context.Context) error {
					s, err := env.prove(ctx, admins[namespace], append([]string{namespace + "/one", address}, how...)...)
					if err != nil {
						return err
					}
					there := []string{"from " + namespace + "/one on n1 in " + namespace, "to " + namespace + "/two on " + node + " in " + namespace}
					back := []string{"from " + namespace + "/two on " + node + " in " + namespace, "to " + namespace + "/one on n1 in " + namespace}
					text, _ := json.Marshal(s)
					for _, other := range []string{red, blue, guest} {
						if other != namespace && strings.Contains(string(text), other) {
							t.Fatalf("a packet of Network %s is seen in %s: %s", namespace, other, text)
						}
					}
					if s.Verdict != inspectapi.SentAsExplained || !s.Answered || !slices.Equal(links(s.There), there) ||
						!slices.Equal(links(s.Back), back) ||
						!tunnelled(s.There, "n1", node) || !tunnelled(s.Back, "n1", node) {
						return fmt.Errorf("it is told %s", text)
					}
					return nil
				})
		}
	}

	// Between Networks, by a face: the operator sees all of it, and the guest only its own part.
	face := pods[1].Status.PodIP
	cluster.Eventually(t, cluster.Patience, "a packet gets to another Network", func(ctx context.Context) error {
		every, err := env.prove(ctx, env.Box.Kubeconfig(), guest+"/one", face, "--port", "8080")
		if err != nil {
			return err
		}
		text, _ := json.Marshal(every)
		if got := links(every.There); every.Verdict != inspectapi.SentAsExplained || !every.Answered || len(got) != 2 ||
			got[1] != "to "+red+"/two on n2 in "+red || !strings.Contains(string(text), "the porthole of Network "+red) {
			return fmt.Errorf("who runs the cluster is told %s", text)
		}
		his, err := env.prove(ctx, admins[guest], guest+"/one", face, "--port", "8080")
		if err != nil {
			return err
		}
		text, _ = json.Marshal(his)
		for _, secret := range []string{red, "n2", address} {
			if strings.Contains(string(text), secret) {
				t.Fatalf("the guest is told of %s: %s", secret, text)
			}
		}
		if his.Verdict != inspectapi.SentAsExplained || !his.Answered || !his.Hidden ||
			!slices.Equal(links(his.There), []string{"from " + guest + "/one on n1 in " + guest}) {
			return fmt.Errorf("the guest is told %s", text)
		}
		return nil
	})

	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shut"}, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "two"}}, PolicyTypes: []networkingv1.PolicyType{
			networkingv1.PolicyTypeIngress,
		},
	}}
	if _, err := env.Clients.Kube.NetworkingV1().NetworkPolicies(red).Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, cluster.Patience, "a policy stops it, as explained", func(ctx context.Context) error {
		s, err := env.prove(ctx, admins[red], red+"/one", red+"/two", "--port", "8080")
		if err != nil {
			return err
		}
		if got := links(s.There); s.Verdict != inspectapi.SentAsExplained || s.Answered || len(got) != 1 ||
			!strings.HasPrefix(s.What, "explained: it is stopped by policy on n2") {
			return fmt.Errorf("it is told %+v", s)
		}
		return nil
	})
	if err := env.Clients.Kube.NetworkingV1().NetworkPolicies(red).Delete(t.Context(), policy.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	for name, c := range map[string]struct {
		kubeconfig string
		args       []string
		says       string
	}{
		"by who may only view":      {viewer, []string{red + "/one", red + "/two", "--port", "8080"}, `cannot create resource "pods/ping"`},
		"from another tenant's pod": {admins[red], []string{blue + "/one", address, "--port", "8080"}, "is forbidden"},
		"to another tenant's pod": {
			admins[red], []string{red + "/one", blue + "/two", "--port", "8080"}, "you may not ask about pods and Services of namespace " + blue,
		},
		"from a node": {env.Box.Kubeconfig(), []string{"node/n1", red + "/two", "--port", "8080"}, "FROM must be a pod"},
	} {
		out, err := env.atoll(t.Context(), c.kubeconfig, append([]string{"explain", "--send"}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}

	// The node takes nothing to the pod any more, and neither objects nor rows know.
	veths, err := env.Box.Exec(t.Context(), "n2", "ip", "-o", "link", "show", "type", "veth")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(veths)) {
		if strings.Contains(line, string(pods[1].UID)) {
			name, _, _ := strings.Cut(strings.Fields(line)[1], "@")
			if out, err := env.Box.Exec(t.Context(), "n2", "ip", "link", "set", name, "down"); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	cluster.Eventually(t, cluster.Patience, "it differs from what is explained", func(ctx context.Context) error {
		s, err := env.prove(ctx, admins[red], red+"/one", red+"/two", "--port", "8080")
		if s.Verdict != inspectapi.SentDiffers ||
			!strings.Contains(s.What, "explained: it gets to pod "+red+"/two, but it is seen last at node ") {
			return errors.Join(err, fmt.Errorf("it is told %+v", s))
		}
		return nil
	})
}
