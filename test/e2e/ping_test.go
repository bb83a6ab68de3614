//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/matrix"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// named gives a ServiceAccount of a namespace one of Kubernetes' roles there, and is its kubeconfig.
func (c *suite) named(t *testing.T, namespace, name, role string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role,
		},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	_, err := c.Clients.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{})
	if err == nil {
		_, err = c.Clients.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return c.adminOf(t, namespace, name).kubeconfig
}

// TestPingByTheAPI: by a kubeconfig alone the admin of a namespace has packets sent from its pods, in their own Network, whatever
// addresses another has; and nobody has them sent from a pod of somebody else's, nor does who may only view.
func TestPingByTheAPI(t *testing.T) {
	t.Parallel()
	const red, blue, only = "ping-red", "ping-blue", "10.0.0.77"
	for _, ns := range []string{red, blue} {
		env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
		env.Namespace(t, ns, ns)
	}
	pods := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: red, Name: "one", Node: "n1"}),
		env.Pod(t, cluster.PodSpec{Namespace: red, Name: "two", Node: "n2", App: "two"}),
		env.Pod(t, cluster.PodSpec{Namespace: blue, Name: "one", Node: "n1"}),
		env.Pod(t, cluster.PodSpec{Namespace: blue, Name: "only", Node: "n2", NICs: `[{"ip":"` + only + `"}]`}))
	redAdmin, blueAdmin, viewer := env.named(t, red, "admin", "admin"), env.named(t, blue, "admin", "admin"), env.named(t, red, "viewer",
		"view")
	ask := func(ctx context.Context, kubeconfig string, args ...string) (lost int, addresses map[string]bool, err error) {
		out, err := env.atoll(ctx, kubeconfig, append([]string{"ping", "-o", "json", "-c", "2", "-i", "200ms"}, args...)...)
		var said struct {
			Replies []struct {
				Address string `json:"address"`
			} `json:"replies"`
			Lost int    `json:"lost"`
			Next string `json:"next"`
		}
		if decoded := json.NewDecoder(strings.NewReader(out)).Decode(&said); decoded != nil {
			return 0, nil, errors.Join(err, decoded, errors.New(out))
		}
		if (err != nil) != (said.Lost > 0) || (said.Next != "") != (said.Lost > 0) {
			return 0, nil, fmt.Errorf("%d are lost, and it ends with %w: %s", said.Lost, err, out)
		}
		addresses = map[string]bool{}
		for _, r := range said.Replies {
			addresses[r.Address] = true
		}
		return said.Lost, addresses, nil
	}
	own := cluster.OwnAddress(t, pods[1])
	for _, way := range [][]string{{}, {"--port", "8080"}} {
		cluster.Eventually(t, cluster.Patience, fmt.Sprintf("a pod reaches another of its Network %v", way), func(ctx context.Context) error {
			lost, addresses, err := ask(ctx, redAdmin, append([]string{red + "/one", red + "/two"}, way...)...)
			if err != nil || lost != 0 || len(addresses) != 1 || !addresses[own] {
				return fmt.Errorf("%w: %d lost, to %v; it has %s", err, lost, addresses, own)
			}
			return nil
		})
	}
	// The admin of a namespace may not ask which pods a Network has.
	matrixShows(t, env.Box.Kubeconfig(), red)
	cluster.Eventually(t, cluster.Patience, "the control: in its own Network the address answers", func(ctx context.Context) error {
		lost, _, err := ask(ctx, blueAdmin, blue+"/one", only)
		if err == nil && lost != 0 {
			err = fmt.Errorf("%d lost", lost)
		}
		return err
	})
	cluster.Eventually(t, cluster.Patience, "an address of another Network answers nobody here", func(ctx context.Context) error {
		lost, _, err := ask(ctx, redAdmin, red+"/one", only)
		if err == nil && lost != 2 {
			t.Fatalf("a packet of %s/one is answered by a pod of Network %s", red, blue)
		}
		return err
	})
	for name, c := range map[string]struct {
		kubeconfig string
		args       []string
		says       string
	}{
		"a matrix of another's":      {redAdmin, []string{blue}, "is forbidden"},
		"from another tenant's pod":  {redAdmin, []string{blue + "/one", only}, `cannot create resource "pods/ping"`},
		"from another's that is not": {redAdmin, []string{blue + "/none", only}, `cannot create resource "pods/ping"`},
		"to another tenant's pod": {
			redAdmin, []string{red + "/one", blue + "/only"}, "you may not ask about pods and Services of namespace " + blue,
		},
		"by who may only view":         {viewer, []string{red + "/one", red + "/two"}, `cannot create resource "pods/ping"`},
		"from a pod that is not there": {redAdmin, []string{red + "/none", red + "/two"}, "there is no pod " + red + "/none"},
	} {
		command := "ping"
		if len(c.args) == 1 {
			command = "matrix"
		}
		out, err := env.atoll(t.Context(), c.kubeconfig, append([]string{command}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// matrixShows: every path of a Network with the pods one and two is answered, as expected; a policy then drops one direction,
// which is expected, too.
func matrixShows(t *testing.T, admin, network string) {
	t.Helper()
	await := func(what string, want map[string]matrix.Outcome) {
		t.Helper()
		cluster.Eventually(t, cluster.Patience, "atoll matrix "+what, func(ctx context.Context) error {
			out, err := env.atoll(ctx, admin, "matrix", network, "-o", "json", "--port", "8080")
			var m matrix.Matrix
			if decoded := json.NewDecoder(strings.NewReader(out)).Decode(&m); decoded != nil {
				return errors.Join(err, decoded, errors.New(out))
			}
			for _, p := range m.Paths {
				if p.Observed != want[p.From+" "+p.To] || p.Expected != p.Observed {
					err = errors.Join(err, fmt.Errorf("%+v", p))
				}
			}
			if err == nil && (len(m.Paths) != len(want) || m.Differing+m.Untried != 0) {
				err = errors.New(out)
			}
			return err
		})
	}
	there, back := network+"/one "+network+"/two", network+"/two "+network+"/one"
	await("without a policy", map[string]matrix.Outcome{there: matrix.Answered, back: matrix.Answered})
	policies := env.Clients.Kube.NetworkingV1().NetworkPolicies(network)
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "one-way"}, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "two"}}, PolicyTypes: []networkingv1.PolicyType{
			networkingv1.PolicyTypeIngress,
		},
	}}
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await("with a policy that drops one direction", map[string]matrix.Outcome{there: matrix.Silent, back: matrix.Answered})
	if err := policies.Delete(t.Context(), policy.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
