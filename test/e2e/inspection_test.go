//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/sandbox"
)

// atoll is what the command line prints, whoever's kubeconfig it has, and what it says when it fails.
func (c *suite) atoll(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	out, err := c.Box.Exec(ctx, sandbox.Central,
		append([]string{filepath.Join(c.Options.Bin, "atoll"), "--kubeconfig=" + kubeconfig}, args...)...)
	return string(out), err
}

// TestInspectionByTheAPI: by a kubeconfig alone the command line tells what is so: of the cluster, of a Network, and of pods
// through every layer.
func TestInspectionByTheAPI(t *testing.T) {
	t.Parallel()
	const ns = "inspected"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, ns, ns)
	env.Service(t, ns, "web", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}})
	pods := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "one", Node: "n1", App: "web"}),
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "two", Node: "n2"}))
	lost := cluster.PodSpec{Namespace: ns, Name: "lost", Node: "n3"}.Object()
	lost.Annotations = map[string]string{"atoll.dev/nics": `[{"ip":"10.9.9.9"}]`}
	env.Make(t, lost)
	admin := env.Box.Kubeconfig()
	ask := func(ctx context.Context, into any, args ...string) error {
		out, err := env.atoll(ctx, admin, append(args, "-o", "json")...)
		if decoded := json.NewDecoder(strings.NewReader(out)).Decode(into); decoded != nil {
			return errors.Join(err, decoded, errors.New(out))
		}
		return nil
	}
	cluster.Eventually(t, cluster.Patience, "atoll status says that all is well", func(ctx context.Context) error {
		out, err := env.atoll(ctx, admin, "status")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		var c api.Cluster
		if err := ask(ctx, &c, "status"); err != nil {
			return err
		}
		s := c.Status
		ready := func(n api.Node) bool { return n.Ready && n.Agent != "" && n.Chassis != nil && *n.Chassis }
		if !s.Healthy || s.Leader == nil || len(s.Databases) != 2 || len(s.Nodes) != len(env.Box.Nodes()) ||
			!slices.ContainsFunc(s.Nodes, ready) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	cluster.Eventually(t, cluster.Patience, "atoll network", func(ctx context.Context) error {
		var n api.Network
		if err := ask(ctx, &n, "network", ns); err != nil {
			return err
		}
		var object v1alpha1.Network
		if err := env.Read(ctx, &object, "network", ns); err != nil {
			return err
		}
		s, d := n.Status, n.Status.Detail
		want := []api.NodePods{{Node: "n1", Pods: 1}, {Node: "n2", Pods: 1}}
		if s.Phase != string(object.Status.Phase) || s.Pods != 2 || object.Status.Pods != 2 || len(s.Ranges) != 1 ||
			s.Ranges[0].Free != object.Status.Subnets[0].Free ||
			!slices.Equal(d.Nodes, want) || !slices.Equal(d.Namespaces, []string{ns}) || len(d.Services) != 1 ||
			slices.ContainsFunc(d.Rows, func(r api.Row) bool { return !r.There }) || len(d.Rows) != 2 {
			return fmt.Errorf("it tells %+v %+v, the Network is %+v", s, d, object.Status)
		}
		return nil
	})
	var list api.PodList
	if err := ask(t.Context(), &list, "pods", "-n", ns); err != nil || len(list.Items) != 3 {
		t.Errorf("of pods it tells %+v, %v", list.Items, err)
	}
	for _, pod := range pods {
		cluster.Eventually(t, cluster.Patience, "atoll pod "+pod.Name, func(ctx context.Context) error {
			var p api.Pod
			if err := ask(ctx, &p, "pod", ns+"/"+pod.Name); err != nil {
				return err
			}
			s := p.Status
			if s.Verdict != "every layer is there" || !slices.Equal(s.Addresses, []string{cluster.OwnAddress(t, pod)}) ||
				s.Faces[0] != pod.Status.PodIP || s.Node != pod.Spec.NodeName || s.Network != ns {
				return fmt.Errorf("%+v", s)
			}
			if want := pod.Name == "one"; slices.Equal(s.Services, []string{ns + "/web"}) != want {
				return fmt.Errorf("its Services are %v", s.Services)
			}
			return nil
		})
	}
	inspectAddresses(t, admin, ns, pods)
	cluster.Eventually(t, cluster.Patience, "atoll pod names why one has no address", func(ctx context.Context) error {
		out, err := env.atoll(ctx, admin, "pod", ns+"/lost")
		if err == nil || !strings.Contains(out, "MISSING") ||
			!strings.Contains(out, "AddressOutsideSubnet: address 10.9.9.9 is outside of every subnet of Network \"inspected\"") {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}

// inspectAddresses: atoll ipam tells who holds which address, and finds an address in OVN's database that nobody lives at; atoll
// topology draws the Network.
func inspectAddresses(t *testing.T, admin, ns string, pods []*corev1.Pod) {
	t.Helper()
	tells := func(what string, status int, args []string, want ...string) {
		t.Helper()
		cluster.Eventually(t, cluster.Patience, what, func(ctx context.Context) error {
			out, err := env.atoll(ctx, admin, args...)
			for _, w := range want {
				if (err != nil) != (status != 0) || !strings.Contains(strings.Join(strings.Fields(out), " "), w) {
					return fmt.Errorf("%w: %s without %s", err, out, w)
				}
			}
			return nil
		})
	}
	var holders []string
	for _, pod := range pods {
		holders = append(holders, fmt.Sprintf("%s pod %s/%s Subnet %s", cluster.OwnAddress(t, pod), ns, pod.Name, pod.Spec.NodeName))
	}
	tells("atoll ipam names who has which address", 0, []string{"ipam", ns}, append(holders, ns+" Subnet a 10.0.0.0/24 256 3 2 251 2 pods")...)
	tells("atoll topology draws it", 0, []string{"topology", ns}, "router "+ns,
		"switch "+ns+"/a: 10.0.0.0/24 via 10.0.0.1, 2 pods on n1 1, n2 1")
	// Of all Networks, which other tests make and take away meanwhile.
	tells("atoll topology draws all", 0, []string{"topology", "-o", "mermaid"}, "flowchart ", `["`+ns+`<br/>`)
	check := []string{"ipam", "check", ns, "--settle", "2s"}
	tells("atoll ipam check finds nothing", 0, check, "0 findings, of 3 addresses in 1 Network.")
	env.NBCtl(t, "lsp-add", ns+"/a", "ghost", "--", "lsp-set-addresses", "ghost", "0a:58:0a:00:00:63 10.0.0.99")
	tells("atoll ipam check finds an address that nobody lives at", 1, check, "Leak "+ns+" 10.0.0.99 Logical_Switch_Port/ghost",
		"Next: remove it: ovn-nbctl lsp-del ghost")
	env.NBCtl(t, "lsp-del", "ghost")
	tells("it is gone once it is mended", 0, check, "0 findings, of 3 addresses in 1 Network.")
}

// TestTenantInspectsHisOwn: a tenant's admin sees the tenant's Networks and pods, and cannot learn whether others exist. With the
// right to see them, the admin can.
func TestTenantInspectsHisOwn(t *testing.T) {
	t.Parallel()
	env.applyTenants(t)
	jo := env.adminOf(t, "acme", "jo").kubeconfig
	cluster.Eventually(t, cluster.Patience, "he sees his own", func(ctx context.Context) error {
		out, err := env.atoll(ctx, jo, "networks", "-o", "name")
		for _, want := range []string{"network/acme\n", "network/acme--db\n", "network/acme--svc\n"} {
			if err != nil || !strings.Contains(out, want) {
				return fmt.Errorf("%w: %s without %s", err, out, want)
			}
		}
		if strings.Contains(out, "umbrella") || strings.Contains(out, "platform") || strings.Contains(out, "default") {
			t.Errorf("he is told of %s", out)
		}
		for _, command := range []string{"ipam", "topology"} {
			out, err := env.atoll(ctx, jo, command, "-o", "name")
			if err != nil || !strings.Contains(out, command+"/acme\n") || strings.Contains(out, "umbrella") || strings.Contains(out, "system:") {
				return fmt.Errorf("%w: %s tells %s", err, command, out)
			}
		}
		if out, err = env.atoll(ctx, jo, "network", "acme", "-o", "yaml"); err != nil || !strings.Contains(out, "network: platform") {
			return fmt.Errorf("%w: %s", err, out)
		}
		if strings.Contains(out, "umbrella") {
			t.Errorf("of his Network he is told of another tenant: %s", out)
		}
		if out, err = env.atoll(ctx, jo, "pod", "acme/acme-1"); err != nil || !strings.Contains(out, "every layer is there") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	others := map[string]string{"umbrella": "nobodys", "umbrella/umbrella-1": "umbrella/nobodys"}
	for there, not := range others {
		command := "network"
		if strings.Contains(there, "/") {
			command = "pod"
		}
		_, told := env.atoll(t.Context(), jo, command, there)
		_, toldNot := env.atoll(t.Context(), jo, command, not)
		if told == nil || toldNot == nil || !strings.Contains(told.Error(), "is forbidden") {
			t.Errorf("%s %s: %v, %v", command, there, told, toldNot)
			continue
		}
		plain := func(err error, name string) string {
			short := name[strings.LastIndex(name, "/")+1:]
			return strings.ReplaceAll(strings.ReplaceAll(err.Error(), name, "X"), `"`+short+`"`, `"X"`)
		}
		if a, b := plain(told, there), plain(toldNot, not); a != b {
			t.Errorf("of what is there he is told\n%s\nof what is not\n%s", a, b)
		}
	}
	if out, err := env.atoll(t.Context(), jo, "status"); err == nil || !strings.Contains(err.Error(), "is forbidden") {
		t.Errorf("status: %v\n%s", err, out)
	}
	// The control: it is the right that decides.
	bindings := env.Clients.Kube.RbacV1().ClusterRoleBindings()
	binding, err := bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "inspects-all-"}, RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "atoll-inspector",
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
	cluster.Eventually(t, cluster.Patience, "with the right he sees another's", func(ctx context.Context) error {
		for _, args := range [][]string{{"network", "umbrella"}, {"pod", "umbrella/umbrella-1"}} {
			if out, err := env.atoll(ctx, jo, args...); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
		return nil
	})
}
