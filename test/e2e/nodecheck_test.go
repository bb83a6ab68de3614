//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/check"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// nodesCheck is what `atoll check` tells of a Network's things on nodes, and of how it ended.
type nodesCheck struct {
	check.Report
	Verdict string `json:"verdict"`
}

// ofNode are the objects of some differences on a node.
func ofNode(all []drift.Difference, node string) (out []string) {
	for _, d := range all {
		if d.Place == drift.PlaceNode && d.Node == node {
			out = append(out, d.Owner.String()+" "+string(d.Kind)+" "+d.Object+" "+d.Want)
		}
	}
	return out
}

// TestCheckOfNodes: what is damaged on a node's bridge and in a porthole `atoll check` names with node and object, by the rights
// of atoll-check; with those of atoll-repair it has it mended, and then nothing differs on any node.
func TestCheckOfNodes(t *testing.T) {
	const ns, node = "checked-nodes", "n2"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, ns, ns)
	pods := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "web", Node: node}),
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "client", Node: "n1"}))
	pod := pods[0]
	hole := porthole.IDOf(cluster.AttachmentOf(t, pod).NetworkUID).Name()
	checker, mender := env.bound(t, ns, "checker", "atoll-check"), env.bound(t, ns, "mender", "atoll-check", "atoll-repair")
	check := func(ctx context.Context, kubeconfig string, args ...string) (out nodesCheck, err error) {
		said, err := env.atoll(ctx, kubeconfig, append([]string{"check", "-o", "json"}, args...)...)
		if decoded := json.NewDecoder(strings.NewReader(said)).Decode(&out); decoded != nil {
			return out, errors.Join(err, decoded, errors.New(said))
		}
		return out, err
	}
	well := func(what string) {
		t.Helper()
		cluster.Eventually(t, cluster.Patience, what, func(ctx context.Context) error {
			out, err := check(ctx, checker)
			if err != nil || out.Nodes != len(env.Box.Nodes()) || !out.Whole() {
				return fmt.Errorf("%w: %s\n%+v", err, out.Verdict, out.Report)
			}
			return nil
		})
	}
	well("nothing differs")
	iface := ""
	damage := func(ctx context.Context) error {
		out, err := env.Box.Exec(ctx, node, "ovs-vsctl", "--bare", "--columns=name", "find", "Interface", "external_ids:atoll.dev/pod="+ns+"/web")
		if iface = strings.TrimSpace(string(out)); err != nil || iface == "" {
			return fmt.Errorf("find the pod's port: %w: %s", err, out)
		}
		if out, err := env.Box.Exec(ctx, node, "ovs-vsctl", "remove", "Interface", iface, "external_ids", "iface-id"); err != nil {
			return fmt.Errorf("damage the port: %w: %s", err, out)
		}
		rules := "nft delete element inet atoll pods4 { " + cluster.OwnAddress(t, pod) + " }"
		if out, err := env.Box.Exec(ctx, node, "ip", "netns", "exec", hole, "sh",
			"-c", rules); err != nil && !strings.Contains(err.Error()+string(out), "No such file") {
			return fmt.Errorf("damage the rules: %w: %s", err, out)
		}
		return nil
	}
	// The agent mends it within a minute by itself: who looks just then finds nothing, and damages it anew.
	cluster.Eventually(t, cluster.Patience, "the damage is found", func(ctx context.Context) error {
		if err := damage(ctx); err != nil {
			return err
		}
		out, err := check(ctx, checker, "--settle", "1s")
		told := strings.Join(ofNode(out.Differences, node), "\n")
		for _, want := range []string{
			"Pod/" + ns + "/web interface-differs Interface " + iface + " iface-id=" + ns + "/web",
			"Network/" + ns + " object-missing nft atoll set pods4 in " + hole + " " + cluster.OwnAddress(t, pod),
		} {
			if !strings.Contains(told, want) {
				return fmt.Errorf("%s is not told: %w: %s\n%s", want, err, out.Verdict, told)
			}
		}
		if err == nil || !strings.Contains(out.Verdict, "atoll check --repair") {
			return fmt.Errorf("it ends with %w: %s", err, out.Verdict)
		}
		return nil
	})
	// Who may only look does not repair.
	out, err := check(t.Context(), checker, "--repair", "--settle", "1s")
	if err == nil && len(out.Differences)+len(out.Problems) > 0 || len(out.Repaired) > 0 && len(out.Problems) == 0 {
		t.Errorf("who may not repair: %v, %+v", err, out.Report)
	}
	for _, p := range out.Problems {
		if !strings.Contains(p.Why, "atoll-repair") {
			t.Errorf("why he may not: %s", p.Why)
		}
	}
	cluster.Eventually(t, cluster.Patience, "the damage is repaired", func(ctx context.Context) error {
		if err := damage(ctx); err != nil {
			return err
		}
		out, err := check(ctx, mender, "--repair", "--settle", "1s")
		told := strings.Join(ofNode(out.Repaired, node), "\n")
		if err != nil && len(ofNode(out.Differences, node)) > 0 || !strings.Contains(told, "Interface "+iface) ||
			!strings.Contains(told, "set pods4 in "+hole) {
			return fmt.Errorf("%w: %s\nrepaired: %s\n%+v", err, out.Verdict, told, out.Report)
		}
		return nil
	})
	well("nothing differs any more")
	env.Reach(t, pods[1], pod)
}

// bound gives a ServiceAccount of a namespace ClusterRoles for the whole cluster, and is its kubeconfig.
func (c *suite) bound(t *testing.T, namespace, name string, roles ...string) string {
	t.Helper()
	account := c.named(t, namespace, name, "view")
	for _, role := range roles {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name + "-" + role}, RoleRef: rbacv1.RoleRef{
				APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role,
			},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		}
		if _, err := c.Clients.Kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := cluster.AfterTest()
			defer cancel()
			if err := c.Clients.Kube.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	return account
}
