//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/gatewayapi"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// gatewayManifest is a Gateway with a TCP and a UDP listener on one port, in a namespace whose Service is called echo. The
// address is the one of the Gateways of all Networks.
const gatewayManifest = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: front, namespace: NAMESPACE}
spec:
  gatewayClassName: atoll
  addresses: [{value: 198.18.7.7}]
  listeners:
  - {name: tcp, protocol: TCP, port: 7000}
  - {name: udp, protocol: UDP, port: 7000}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: echo, namespace: NAMESPACE}
spec:
  parentRefs: [{name: front}]
  rules: [{backendRefs: [{name: echo, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: echo, namespace: NAMESPACE}
spec:
  parentRefs: [{name: front, sectionName: udp}]
  rules: [{backendRefs: [{name: echo, port: 80}]}]
`

// TestGateways: the kinds of Gateway API come to a cluster that runs. Then Gateways of two Networks and of the default one
// listen on the same address, and each client reaches the pods of its own Network there, by TCP and by UDP, on the same node
// and on another. The kinds go, and the load balancers with them.
func TestGateways(t *testing.T) {
	env.installGatewayAPI(t)
	virtual := netip.MustParseAddr("198.18.7.7")
	namespaces := map[string]string{"gates-a": "gates-a", "gates-b": "gates-b", "gates-plain": ""}
	for ns, network := range namespaces {
		if network != "" {
			env.Network(t, network, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
		}
		env.Namespace(t, ns, network)
		env.Service(t, ns, "echo", corev1.ServiceSpec{Ports: []corev1.ServicePort{
			{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)},
			{Name: "udp", Protocol: corev1.ProtocolUDP, Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)},
		}})
	}
	servers, clients := map[string][]*corev1.Pod{}, map[string]*corev1.Pod{}
	for ns := range namespaces {
		servers[ns] = []*corev1.Pod{
			env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "near", Node: "n1", App: "echo"}),
			env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "far", Node: "n2", App: "echo"}),
		}
		clients[ns] = env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "client", Node: "n1"})
	}
	for ns := range namespaces {
		env.Apply(t, strings.ReplaceAll(gatewayManifest, "NAMESPACE", ns))
	}
	for ns := range namespaces {
		env.WaitReady(t, append([]*corev1.Pod{clients[ns]}, servers[ns]...)...)
		env.waitProgrammed(t, ns, "front", virtual)
		for _, protocol := range []wire.Protocol{wire.TCP, wire.UDP} {
			shared(t, clients[ns], wire.Target{Address: virtual, Protocol: protocol, Port: 7000}, servers[ns])
		}
	}

	// A quota of the namespace bounds routes, which have none of the Tenant.
	boundNamespace(t, "gates-b", "tcproutes.gateway.networking.k8s.io")
	second := strings.ReplaceAll(gatewayManifest[strings.Index(gatewayManifest, "kind: TCPRoute"):strings.LastIndex(gatewayManifest, "---")],
		"NAMESPACE", "gates-b")
	for i, refused := range []bool{false, true} {
		route := "apiVersion: gateway.networking.k8s.io/v1\n" + strings.Replace(second, "name: echo,", fmt.Sprintf("name: more-%d,", i), 1)
		cmd := env.Program(t.Context(), "kubectl", "create", "-f", "-")
		cmd.Stdin = strings.NewReader(route)
		if out, err := cmd.CombinedOutput(); (err != nil) != refused || refused && !strings.Contains(string(out), "exceeded quota: atoll") {
			t.Errorf("route %d of 2 and one more: %v\n%s", i+2, err, out)
		}
	}

	// Without a route nobody answers any more; the other protocol and the other Networks go on.
	env.Kubectl(t, "delete", "-n", "gates-a", "tcproute", "echo")
	silent(t, clients["gates-a"], wire.Target{Address: virtual, Protocol: wire.TCP, Port: 7000})
	shared(t, clients["gates-a"], wire.Target{Address: virtual, Protocol: wire.UDP, Port: 7000}, servers["gates-a"])
	shared(t, clients["gates-b"], wire.Target{Address: virtual, Protocol: wire.TCP, Port: 7000}, servers["gates-b"])

	env.Kubectl(t, "delete", "crd", "gateways.gateway.networking.k8s.io")
	silent(t, clients["gates-b"], wire.Target{Address: virtual, Protocol: wire.TCP, Port: 7000})
}

// installGatewayAPI gives the cluster the kinds of Gateway API and our class, until the test ends.
func (c *suite) installGatewayAPI(t *testing.T) {
	t.Helper()
	dir, err := gatewayapi.Definitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if out, err := c.Program(ctx, "kubectl", "delete", "--ignore-not-found", "-f", dir).CombinedOutput(); err != nil {
			t.Errorf("remove Gateway API: %v\n%s", err, out)
		}
	})
	c.Kubectl(t, "apply", "--server-side", "-f", dir)
	cluster.Eventually(t, cluster.Patience, "the class is accepted", func(ctx context.Context) error {
		if out, err := c.Program(ctx, "kubectl", "apply", "--server-side", "-k", "dist/gateway").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		var class gatewayv1.GatewayClass
		if err := c.Read(ctx, &class, "gatewayclass", "atoll"); err != nil {
			return err
		}
		for _, c := range class.Status.Conditions {
			if c.Type == string(gatewayv1.GatewayClassConditionStatusAccepted) && c.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", class.Status)
	})
}

// waitProgrammed waits until a Gateway has an address and is programmed.
func (c *suite) waitProgrammed(t *testing.T, namespace, name string, address netip.Addr) {
	t.Helper()
	cluster.Eventually(t, cluster.Patience, "Gateway "+namespace+"/"+name+" is programmed", func(ctx context.Context) error {
		var g gatewayv1.Gateway
		if err := c.Read(ctx, &g, "gateway", "-n", namespace, name); err != nil {
			return err
		}
		for _, c := range g.Status.Conditions {
			if c.Type == string(gatewayv1.GatewayConditionProgrammed) && c.Status == "True" &&
				len(g.Status.Addresses) == 1 && g.Status.Addresses[0].Value == address.String() {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", g.Status)
	})
}

// shared dials a target until each of the servers has answered, and nobody else may.
func shared(t *testing.T, client *corev1.Pod, target wire.Target, servers []*corev1.Pod) {
	t.Helper()
	missing := map[string]string{}
	for _, s := range servers {
		missing[string(s.UID)] = s.Name
	}
	what := fmt.Sprintf("%s/%s reaches every pod behind %s by %s", client.Namespace, client.Name, target.AddrPort(), target.Protocol)
	cluster.Eventually(t, cluster.Patience, what, func(ctx context.Context) error {
		target.Token = cluster.NewToken(t)
		results, err := matrix.Probe(ctx, env.Exec, client.Namespace, client.Name, []wire.Target{target})
		if err != nil {
			return err
		}
		result := results[target.Token]
		if result.Answered {
			known := false
			for _, s := range servers {
				known = known || string(s.UID) == result.Answerer.UID
			}
			if !known {
				t.Fatalf("%s: %+v answered", what, result.Answerer)
			}
			delete(missing, result.Answerer.UID)
		}
		if len(missing) > 0 {
			return fmt.Errorf("without answer so far: %v", missing)
		}
		return nil
	})
}

// silent waits until nobody answers at a target.
func silent(t *testing.T, client *corev1.Pod, target wire.Target) {
	t.Helper()
	cluster.Eventually(t, cluster.Patience,
		fmt.Sprintf("nobody answers %s at %s", client.Namespace, target.AddrPort()), func(ctx context.Context) error {
			target.Token = cluster.NewToken(t)
			results, err := matrix.Probe(ctx, env.Exec, client.Namespace, client.Name, []wire.Target{target})
			if err == nil && results[target.Token].Answered {
				err = fmt.Errorf("%+v answers", results[target.Token].Answerer)
			}
			return err
		})
}
