//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// TestCompatibility: two consumers reach a provider's pods and Services, by address and by name, on the same node and on another.
// One of them is another tenant's. All have the same addresses. Nobody else reaches it, nor it them, nor they each other; and
// when it ends, it ends.
func TestCompatibility(t *testing.T) {
	t.Parallel()
	const shop, near, far, stranger = "compat-shop", "compat-near", "compat-far", "compat-stranger"
	for _, ns := range []string{shop, near, far, stranger} {
		spec := v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}}}}
		switch ns {
		case shop:
			spec.CompatibleWith = []v1alpha1.CompatiblePeer{{Network: near}, {Tenant: far}}
		case far:
			spec.Tenant = far
		}
		env.Network(t, ns, spec)
		env.Namespace(t, ns, ns)
	}
	env.Kubectl(t, "label", "namespace", far, model.LabelTenant+"="+far)
	both := corev1.IPFamilyPolicyRequireDualStack
	ports := []corev1.ServicePort{{Name: "echo", Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)}}
	service := env.Service(t, shop, "web", corev1.ServiceSpec{IPFamilyPolicy: &both, Ports: ports})
	headless := corev1.ServiceSpec{
		IPFamilyPolicy: &both, ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "web"}, Ports: ports,
	}
	if _, err := env.Clients.Kube.CoreV1().Services(shop).Create(t.Context(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "peers"}, Spec: headless}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for _, s := range []cluster.PodSpec{
		{Namespace: shop, Name: "web", App: "web", Node: "n2"},
		{Namespace: near, Name: "client", Node: "n2"},
		{Namespace: far, Name: "client", Node: "n1"},
		{Namespace: stranger, Name: "client", Node: "n1"},
	} {
		// The same address in all of them.
		s.NICs = `[{"ip":"10.0.0.40"}]`
		pods[s.Namespace] = env.Pod(t, s)
	}
	for ns := range pods {
		pods[ns] = env.WaitReady(t, pods[ns])[0]
	}
	addresses := func(texts []string) []netip.Addr {
		var out []netip.Addr
		for _, text := range texts {
			out = append(out, netip.MustParseAddr(text))
		}
		return out
	}
	faces := func(ns string) []netip.Addr {
		var out []netip.Addr
		for _, ip := range pods[ns].Status.PodIPs {
			out = append(out, netip.MustParseAddr(ip.IP))
		}
		return out
	}
	vips := addresses(service.Spec.ClusterIPs)
	reaches := func(from string, to string, at []netip.Addr, port uint16, want bool, protocols ...wire.Protocol) {
		t.Helper()
		var targets []wire.Target
		for _, a := range at {
			for _, p := range protocols {
				target := wire.Target{Address: a, Protocol: p}
				if p != wire.ICMP {
					target.Port = port
				}
				targets = append(targets, target)
			}
		}
		env.AwaitProbes(t, pods[from], targets, func(r wire.Result) error {
			switch {
			case r.Answered != want:
				return fmt.Errorf("answered: %t, want %t (%s)", r.Answered, want, r.Error)
			case want && r.Answerer.UID != "" && r.Answerer.UID != string(pods[to].UID):
				return fmt.Errorf("%s answered", r.Answerer)
			}
			return nil
		})
	}
	all := []wire.Protocol{wire.TCP, wire.UDP, wire.ICMP}
	finds := func(from string, want bool) {
		t.Helper()
		for name, at := range map[string][]netip.Addr{
			"web." + shop + ".svc.cluster.local": vips, "peers." + shop + ".svc.cluster.local": faces(shop),
		} {
			if want {
				env.Resolves(t, pods[from], name, at)
				continue
			}
			cluster.Eventually(t, cluster.Patience, name+" does not exist for "+from, func(ctx context.Context) error {
				said, err := env.Dig(ctx, pods[from], "A", name)
				if err == nil && said.Status != "NXDOMAIN" {
					err = errors.New(said.Status)
				}
				return err
			})
		}
	}
	uses := func(from string) {
		t.Helper()
		finds(from, true)
		reaches(from, shop, faces(shop), wire.DefaultPort, true, all...)
		reaches(from, shop, vips, 80, true, wire.TCP)
	}
	apart := func(from string) {
		t.Helper()
		finds(from, false)
		reaches(from, shop, faces(shop), wire.DefaultPort, false, all...)
		reaches(from, shop, vips, 80, false, wire.TCP)
	}

	// One side alone is not enough where there are two tenants.
	env.WaitCondition(t, shop, model.ConditionCompatible, metav1.ConditionFalse, model.ReasonNotUsed)
	uses(near)
	apart(far)
	env.ChangeNetwork(t, far, func(s *v1alpha1.NetworkSpec) { s.Uses = []string{shop} })
	env.WaitCondition(t, shop, model.ConditionCompatible, metav1.ConditionTrue, "")
	env.WaitCondition(t, far, model.ConditionCompatible, metav1.ConditionTrue, "")
	uses(far)
	apart(stranger)
	for _, other := range []string{near, far} {
		reaches(shop, other, faces(other), wire.DefaultPort, false, all...)
	}
	reaches(near, far, faces(far), wire.DefaultPort, false, all...)
	reaches(far, near, faces(near), wire.DefaultPort, false, all...)

	// What is open is not hard: both ends say so, and nobody else.
	isolated := func(ns string, want v1alpha1.Hardness) {
		t.Helper()
		cluster.Eventually(t, cluster.Patience, fmt.Sprintf("the isolation of %s is %s", ns, want), func(ctx context.Context) error {
			n, err := env.Clients.Network(ctx, ns)
			if err == nil && (n.Status.Isolation == nil || n.Status.Isolation.Overall != want) {
				err = fmt.Errorf("it is %+v", n.Status.Isolation)
			}
			return err
		})
	}
	for _, open := range []string{shop, near, far} {
		isolated(open, v1alpha1.Soft)
	}
	isolated(stranger, v1alpha1.Hard)

	// Who is taken off the list reaches it no more, and the other one still does.
	env.ChangeNetwork(t, shop, func(s *v1alpha1.NetworkSpec) { s.CompatibleWith = s.CompatibleWith[1:] })
	apart(near)
	uses(far)
	isolated(near, v1alpha1.Hard)
	isolated(shop, v1alpha1.Soft)
	// The control for all that is apart: with the permission it is reached.
	env.ChangeNetwork(t, shop, func(s *v1alpha1.NetworkSpec) {
		s.CompatibleWith = append(s.CompatibleWith, v1alpha1.CompatiblePeer{Network: near}, v1alpha1.CompatiblePeer{Network: stranger})
	})
	uses(near)
	uses(stranger)
}
