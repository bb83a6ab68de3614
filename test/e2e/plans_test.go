//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
)

// TestAnyAddresses: a Network may choose whatever addresses it likes, those of the infrastructure too. Its pods are probed, reach each
// other, have their names, the Kubernetes API by an ordinary client, their Services by ClusterIP and by addresses of the Network's own, and
// the way out. What cannot be had stands in its condition.
func TestAnyAddresses(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]struct {
		cidrs    []v1alpha1.CIDR
		services []v1alpha1.CIDR
		// says is what CIDRConflict has to say; empty when there is no conflict.
		says []string
		// own: the server outside has an address of the Network's own.
		own bool
	}{
		"plan-everything": {
			[]v1alpha1.CIDR{"10.0.0.0/8", "fd00:10:96::/64"},
			[]v1alpha1.CIDR{"192.168.0.0/24", "fd09::/112"},
			[]string{
				"10.0.0.0/8 of subnet \"a\" overlaps 10.244.0.0/16 of Network \"default\": pods cannot dial its pods and nodes there",
				"10.0.0.0/8 of subnet \"a\" overlaps 10.96.0.0/16, the cluster's own range of Services: pods get no address there",
				"fd00:10:96::/64 of subnet \"a\" overlaps fd00:10:96::/112, the cluster's own range of Services: pods get no address there",
			},
			false,
		},
		"plan-services": {
			[]v1alpha1.CIDR{"10.96.0.0/16", "fd00:10:96::/112"},
			[]v1alpha1.CIDR{"10.244.0.0/16"},
			[]string{"10.96.0.0/16, the cluster's own range of Services: pods get only addresses that no Service has"},
			false,
		},
		"plan-nodes": {
			[]v1alpha1.CIDR{"172.30.0.0/24"}, nil, []string{"172.30.0.0/24 of subnet \"a\" holds 3 addresses of nodes, such as 172.30.0."}, false,
		},
		"plan-home": {
			[]v1alpha1.CIDR{"10.244.0.0/16", "fd00:10:244::/64"}, []v1alpha1.CIDR{"172.30.0.0/24"}, []string{"of Network \"default\""}, false,
		},
		"plan-faces": {
			[]v1alpha1.CIDR{"100.64.0.0/10", "fd64:a701::/64"},
			nil,
			[]string{"the range of faces: pods reach each other by their own addresses"},
			false,
		},
		"plan-abroad": {
			[]v1alpha1.CIDR{"203.0.113.0/24"},
			[]v1alpha1.CIDR{"100.64.0.0/16"},
			[]string{"service range 100.64.0.0/16 overlaps 100.64.0.0/10"},
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Network(t, name, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{{Name: "a", CIDRs: plan.cidrs}}, ServiceCIDRs: plan.services})
			env.Namespace(t, name, name)
			env.MayList(t, name)
			near, far := planPod(name, "near", "n1"), planPod(name, "far", "n2")
			service := planService(t, name, len(plan.cidrs))
			near, far = env.Make(t, near), env.Make(t, far)
			pods := env.WaitReady(t, near, far)
			near, far = pods[0], pods[1]
			env.Reach(t, near, far)
			env.Reach(t, far, near)
			dialled := clusterIPs(service)
			for _, a := range plan.services {
				if i := slices.IndexFunc(dialled, func(ip netip.Addr) bool { return strings.Contains(string(a), ":") == ip.Is6() }); i >= 0 {
					dialled = append(dialled, withinRange(t, ownAddresses(t, service), netip.MustParsePrefix(string(a))))
				}
			}
			var answered []wire.Target
			for _, address := range dialled {
				answered = append(answered, wire.Target{Address: address, Protocol: wire.TCP, Port: 80},
					wire.Target{Address: address, Protocol: wire.UDP, Port: 80})
			}
			env.AwaitProbes(t, near, answered, func(r wire.Result) error {
				if !r.Answered || r.Answerer.UID != string(far.UID) {
					return fmt.Errorf("%+v answered, want %s", r, far.Name)
				}
				return nil
			})
			env.Resolves(t, near, "peers", cluster.AddressesOfPod(t, far))
			named(t, near, "far", dialled)
			lists(t, near, "far", "near")
			if !plan.own {
				env.AwaitProbes(t, near, []wire.Target{{Address: sandbox.OutsideAddresses()[0], Protocol: wire.TCP}}, func(r wire.Result) error {
					if !r.Answered || r.Answerer.UID != sandbox.Outside {
						return fmt.Errorf("%+v answered", r)
					}
					return nil
				})
			}
			message := env.WaitCondition(t, name, model.ConditionCIDRConflict, metav1.ConditionTrue, model.ReasonOverlapsInfra)
			for _, says := range plan.says {
				if !strings.Contains(message, says) {
					t.Errorf("the condition says %q, want %q", message, says)
				}
			}
		})
	}
}

// planPod is a pod that kubelet probes by its face, and that may ask the Kubernetes API.
func planPod(namespace, name, node string) *corev1.Pod {
	object := cluster.PodSpec{Namespace: namespace, Name: name, Node: node, App: name}.Object()
	token := true
	object.Spec.AutomountServiceAccountToken = &token
	container := &object.Spec.Containers[0]
	container.StartupProbe, container.ReadinessProbe = nil, quick(corev1.ProbeHandler{
		TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(wire.DefaultPort)},
	})
	return object
}

// planService makes a Service far, of as many IP families as the Network has, and a headless one, peers, with the same pods.
func planService(t *testing.T, namespace string, families int) *corev1.Service {
	t.Helper()
	policy := corev1.IPFamilyPolicySingleStack
	if families == 2 {
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	headless := corev1.ServiceSpec{
		IPFamilyPolicy: &policy, ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "far"},
		Ports: []corev1.ServicePort{{Name: "echo", Port: 80}},
	}
	_, err := env.Clients.Kube.CoreV1().Services(namespace).Create(t.Context(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "peers"}, Spec: headless}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	port := func(name string, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Protocol: protocol, Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)}
	}
	return env.Service(t, namespace, "far", corev1.ServiceSpec{
		IPFamilyPolicy: &policy, Ports: []corev1.ServicePort{port("tcp", corev1.ProtocolTCP), port("udp", corev1.ProtocolUDP)},
	})
}

// withinRange is the address that lies in a range.
func withinRange(t *testing.T, all []netip.Addr, cidr netip.Prefix) netip.Addr {
	t.Helper()
	i := slices.IndexFunc(all, cidr.Contains)
	if i < 0 {
		t.Fatalf("%v has none of %s", all, cidr)
	}
	return all[i]
}

// named waits until what a pod finds under a name are addresses that were found to lead there.
func named(t *testing.T, from *corev1.Pod, name string, among []netip.Addr) {
	t.Helper()
	cluster.Eventually(t, cluster.Patience,
		fmt.Sprintf("%s/%s looks up %s", from.Namespace, from.Name, name), func(ctx context.Context) error {
			out, err := env.Exec(ctx, from.Namespace, from.Name, nil, matrix.Program, "resolve", name)
			if err != nil {
				return err
			}
			var list []wire.Name
			if err := json.Unmarshal(out, &list); err != nil {
				return err
			}
			if len(list) != 1 || len(list[0].Addresses) == 0 ||
				slices.ContainsFunc(list[0].Addresses, func(a netip.Addr) bool { return !slices.Contains(among, a) }) {
				return fmt.Errorf("it is %s, want some of %v", out, among)
			}
			return nil
		})
}

// lists waits until a pod lists the pods of its namespace, as any in-cluster client does.
func lists(t *testing.T, from *corev1.Pod, want ...string) {
	t.Helper()
	cluster.Eventually(t, cluster.Patience, from.Namespace+"/"+from.Name+" asks the Kubernetes API", func(ctx context.Context) error {
		out, err := env.Exec(ctx, from.Namespace, from.Name, nil, matrix.Program, "api")
		if err != nil {
			return err
		}
		var got []string
		if err := json.Unmarshal(out, &got); err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("it lists %q (error %w), want %q", got, err, want)
		}
		return nil
	})
}
