//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/sandbox/place"
)

// TestServicesFromOutside: who is outside of the cluster reaches a Service whose pods are in a vpc Network by node ports, by
// the address of a load balancer and by external addresses, at any node with policy Cluster. With policy Local it is
// reached at the nodes of its pods only, and the pods see the client's own address. Inside the Network the load balancer's address leads
// there too, though its pods do not reach the outside; external addresses do not. Pods of the default Network reach the Service by
// all of them. Those of another Network, which do reach the outside, reach it by none: a tenant who may write external addresses
// would else receive what others send there.
func TestServicesFromOutside(t *testing.T) {
	t.Parallel()
	const ns, other, plain, near, far = "external", "external-other", "external-plain", "n1", "n2"
	env.Network(t, ns, v1alpha1.NetworkSpec{Egress: v1alpha1.EgressNone, Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, ns, ns)
	env.Network(t, other, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, other, other)
	env.Namespace(t, plain, "")
	pods := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "server", Node: near, App: "server"}),
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "client", Node: far}),
		env.Pod(t, cluster.PodSpec{Namespace: other, Name: "near", Node: near}), env.Pod(t, cluster.PodSpec{
			Namespace: other, Name: "far", Node: far,
		}),
		env.Pod(t, cluster.PodSpec{Namespace: plain, Name: "near", Node: near}))
	server, client, strangers, ours := pods[0], pods[1], pods[2:4], pods[4]
	outside := sandboxAddresses(t, sandbox.Outside)
	for policy, balanced := range map[corev1.ServiceExternalTrafficPolicy]string{
		corev1.ServiceExternalTrafficPolicyLocal:   "198.51.100.20",
		corev1.ServiceExternalTrafficPolicyCluster: "198.51.100.30",
	} {
		external := netip.MustParseAddr(balanced).Next()
		service, err := env.Clients.Kube.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "server-"},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, Selector: server.Labels, ExternalTrafficPolicy: policy,
				ExternalIPs: []string{external.String()},
				Ports: []corev1.ServicePort{
					{Name: "http", Port: 80, TargetPort: intstr.FromInt32(wire.HTTPPort)},
					{Name: "echo", Port: 7, TargetPort: intstr.FromInt32(wire.DefaultPort)},
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// As the controller of a cloud does.
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: balanced}}
		if service, err = env.Clients.Kube.CoreV1().Services(ns).UpdateStatus(t.Context(), service, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		atBalanced := wire.Target{Address: netip.MustParseAddr(balanced), Protocol: wire.TCP, Port: 7}
		atExternal := wire.Target{Address: external, Protocol: wire.TCP, Port: 7}
		answered := func(r wire.Result) error {
			if !r.Answered || r.Answerer.UID != string(server.UID) {
				return fmt.Errorf("%+v, want an answer of %s", r, server.UID)
			}
			return nil
		}
		refused := func(r wire.Result) error {
			if r.Answered || !strings.Contains(r.Error, "refused") {
				return fmt.Errorf("%+v, want a refusal", r)
			}
			return nil
		}
		// That kube-proxy knows the addresses is seen first.
		env.AwaitProbes(t, ours, []wire.Target{atBalanced, atExternal}, answered)
		env.AwaitProbes(t, client, []wire.Target{atBalanced}, answered)
		env.AwaitProbes(t, client, []wire.Target{atExternal}, refused)
		for _, node := range []string{near, far} {
			at := env.NodeAddresses(t, node)[0]
			for what, address := range map[string]netip.AddrPort{
				"node port":     netip.AddrPortFrom(at, uint16(service.Spec.Ports[0].NodePort)),
				"load balancer": netip.AddrPortFrom(netip.MustParseAddr(balanced), 80),
				"external IP":   netip.AddrPortFrom(external, 80),
			} {
				if address.Addr() != at {
					routeOutside(t, address.Addr(), at)
				}
				name := fmt.Sprintf("policy %s, %s at %s", policy, what, node)
				if policy == corev1.ServiceExternalTrafficPolicyLocal && node == far {
					// The others that lead there have been seen to work.
					if by, err := readyAt(t.Context(), sandbox.Outside, address); err == nil {
						t.Errorf("%s: %+v answers", name, by)
					}
					continue
				}
				var by wire.Ready
				cluster.Eventually(t, cluster.Patience, name, func(ctx context.Context) (err error) {
					by, err = readyAt(ctx, sandbox.Outside, address)
					return err
				})
				client, err := netip.ParseAddrPort(by.Client)
				if err != nil || by.UID != string(server.UID) {
					t.Errorf("%s: %+v answers (%v)", name, by, err)
				}
				if policy == corev1.ServiceExternalTrafficPolicyLocal && !slices.Contains(outside, client.Addr()) {
					t.Errorf("%s: the pod sees %s, want one of %v", name, client, outside)
				}
			}
			if policy == corev1.ServiceExternalTrafficPolicyLocal {
				// What the load balancer of a cloud asks to find the nodes that have pods.
				url := fmt.Sprintf("http://%s/", netip.AddrPortFrom(at, uint16(service.Spec.HealthCheckNodePort)))
				want := map[string]int{near: http.StatusOK, far: http.StatusServiceUnavailable}[node]
				cluster.Eventually(t, cluster.Patience, "health of the Service at "+node, func(ctx context.Context) error {
					response, err := get(ctx, sandbox.Outside, url)
					if err != nil {
						return err
					}
					defer response.Body.Close()
					if response.StatusCode != want {
						return fmt.Errorf("%s, want %d", response.Status, want)
					}
					return nil
				})
			}
		}
		// Now every node's kube-proxy knows the addresses.
		for _, stranger := range strangers {
			env.AwaitProbes(t, stranger, []wire.Target{atBalanced, atExternal}, func(r wire.Result) error {
				if r.Answered {
					return fmt.Errorf("%s answered", r.Answerer)
				}
				return nil
			})
		}
	}
}

// get asks for a page from a place, on a connection of its own.
func get(ctx context.Context, from, url string) (*http.Response, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return env.DialFrom(ctx, from, network, address)
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return (&http.Client{Transport: transport, Timeout: 3 * time.Second}).Do(request)
}

// readyAt asks a pod who it is and whom it sees.
func readyAt(ctx context.Context, from string, at netip.AddrPort) (by wire.Ready, err error) {
	response, err := get(ctx, from, "http://"+at.String()+wire.ReadyPath)
	if err != nil {
		return by, err
	}
	defer response.Body.Close()
	return by, json.NewDecoder(response.Body).Decode(&by)
}

// routeOutside has the outside send what is for an address to a node, until the test ends.
func routeOutside(t *testing.T, to, node netip.Addr) {
	t.Helper()
	route := &netlink.Route{Dst: &net.IPNet{IP: to.AsSlice(), Mask: net.CIDRMask(32, 32)}, Gw: node.AsSlice()}
	change := func(do func(*netlink.Route) error) error {
		return place.InNamespace(env.Box.Namespace(sandbox.Outside), func() error { return do(route) })
	}
	if err := change(netlink.RouteReplace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The other node's route may have taken its place.
		_ = change(netlink.RouteDel)
	})
}

// sandboxAddresses are those of a place.
func sandboxAddresses(t *testing.T, name string) []netip.Addr {
	t.Helper()
	var out []netip.Addr
	err := place.InNamespace(env.Box.Namespace(name), func() error {
		list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
		for _, a := range list {
			if address, ok := netip.AddrFromSlice(a.IP); ok {
				out = append(out, address.Unmap())
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
