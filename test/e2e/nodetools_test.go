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
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// TestNodeToolsByTheAPI: by a kubeconfig alone Open vSwitch's programs and its daemons' commands read a node; they write nothing
// without the right and --write, and a tenant's admin reads nothing. The controls are the same with --write, and the admin with
// the role.
func TestNodeToolsByTheAPI(t *testing.T) {
	t.Parallel()
	const ns = "nodetools"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, ns, ns)
	env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "one", Node: "n2"}))
	admin := env.Box.Kubeconfig()
	// says is the error of a command unless it prints what is wanted, or fails with it.
	says := func(ctx context.Context, kubeconfig, want, line string) error {
		out, err := env.atoll(ctx, kubeconfig, strings.Fields(line)...)
		refused := strings.HasPrefix(want, "!")
		if want = strings.TrimPrefix(want, "!"); refused == (err == nil) || !strings.Contains(out+fmt.Sprint(err), want) {
			return fmt.Errorf("atoll %s: want %s: %w: %s", line, want, err, out)
		}
		return nil
	}
	tells := func(want, line string) {
		t.Helper()
		cluster.Eventually(t, cluster.Patience, "atoll "+line, func(ctx context.Context) error { return says(ctx, admin, want, line) })
	}
	tells("Bridge br-int", "vsctl --node n1 show")
	tells(ns+"/one", "vsctl --pod "+ns+"/one -o table show")
	tells("actions=", "ofctl --node n1 dump-flows br-int table=0")
	tells("br-int", "ofctl --node n1 show br-int")
	tells("!there is no bridge br-none", "ofctl --node n1 dump-flows br-none")
	tells("connected", "appctl --node n1 -t ovn-controller connection-status")
	tells("ovs-vswitchd", "appctl --node n1 version")
	tells("Open_vSwitch", "appctl --node n1 -t ovsdb-server ovsdb-server/list-dbs")
	tells("br-int", "appctl --node n1 dpif/show")
	tells("!there is no node n99", "appctl --node n99 version")
	cluster.Eventually(t, cluster.Patience, "flows are a table for programs", func(ctx context.Context) error {
		out, err := env.atoll(ctx, admin, "ofctl", "--pod", ns+"/one", "-o", "json", "dump-flows", "br-int")
		var flows []struct {
			Table   int    `json:"table"`
			Actions string `json:"actions"`
		}
		if decoded := json.Unmarshal([]byte(out), &flows); decoded != nil {
			return errors.Join(err, decoded)
		}
		tables := map[int]bool{}
		for _, f := range flows {
			if tables[f.Table] = true; f.Actions == "" {
				return fmt.Errorf("a flow without actions: %+v", f)
			}
		}
		if len(flows) < 100 || len(tables) < 10 {
			return fmt.Errorf("%d flows in %d tables", len(flows), len(tables))
		}
		t.Logf("%d flows in %d tables", len(flows), len(tables))
		return nil
	})

	// Nobody writes by chance. The controls are with --write.
	const flow = "br-int cookie=0x7e57,table=250,priority=1,actions=drop"
	tells("!this connection only reads", "vsctl --node n1 set Open_vSwitch . external_ids:test-nodetools=x")
	tells("!OFPBRC_EPERM", "ofctl --node n1 add-flow "+flow)
	tells("!this connection only reads", "appctl --node n1 fdb/flush")
	tells("!this connection only reads", "appctl --node n1 -t ovn-controller exit")
	unwritten := func() {
		t.Helper()
		for _, line := range []string{"vsctl --node n1 get Open_vSwitch . external_ids", "ofctl --node n1 dump-flows br-int table=250"} {
			if out, err := env.atoll(t.Context(), admin, strings.Fields(line)...); err != nil || strings.Contains(out, "test-nodetools") ||
				strings.Contains(out, "0x7e57") {
				t.Errorf("it was written: %v: %s", err, out)
			}
		}
	}
	unwritten()
	tells("", "vsctl --node n1 --write set Open_vSwitch . external_ids:test-nodetools=x")
	tells("test-nodetools", "vsctl --node n1 get Open_vSwitch . external_ids")
	tells("", "vsctl --node n1 --write remove Open_vSwitch . external_ids test-nodetools")
	tells("", "ofctl --node n1 --write add-flow "+flow)
	tells("0x7e57", "ofctl --node n1 dump-flows br-int table=250")
	tells("", "ofctl --node n1 --write del-flows br-int cookie=0x7e57/-1")
	unwritten()

	env.nodesAreNotTenants(t, says)
}

// nodesAreNotTenants: a tenant's admin gets no connection to a node. With the role that reads, the admin can read and cannot write.
func (c *suite) nodesAreNotTenants(t *testing.T, says func(ctx context.Context, kubeconfig, want, line string) error) {
	t.Helper()
	c.applyTenants(t)
	jo := c.adminOf(t, "acme", "jo").kubeconfig
	const forbidden = `!cannot get resource "nodes/proxy"`
	for _, line := range []string{
		"vsctl --node n1 show", "ofctl --node n1 dump-flows br-int", "appctl --node n1 dpctl/dump-conntrack", "appctl --pod acme/acme-1 version",
		"appctl --node n99 version", "vsctl --node n1 -o table show",
	} {
		cluster.Eventually(t, cluster.Patience, "a tenant's admin is refused "+line,
			func(ctx context.Context) error { return says(ctx, jo, forbidden, line) })
	}
	bindings := c.Clients.Kube.RbacV1().ClusterRoleBindings()
	binding, err := bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "reads-nodes-"}, RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "atoll-node-reader",
		},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "acme", Name: "jo"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bindings.Delete(context.WithoutCancel(t.Context()), binding.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	cluster.Eventually(t, cluster.Patience,
		"with the role he reads", func(ctx context.Context) error { return says(ctx, jo, "Bridge br-int", "vsctl --node n1 show") })
	cluster.Eventually(t, cluster.Patience, "with that role he does not write", func(ctx context.Context) error {
		return says(ctx, jo, `!cannot update resource "nodes/proxy"`, "appctl --node n1 --write fdb/flush")
	})
}
