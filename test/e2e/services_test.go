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
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
)

// served is a pod that a Service and a port of its node lead to.
type served struct {
	namespace string
	// hostPort is the port of the node that leads to the pod; that of the pod itself when it is of the node's network.
	hostPort int32
	// families are those that the pod has.
	families corev1.IPFamilyPolicy
}

// TestServices: kube-proxy on every node serves cluster addresses to the nodes and node ports to the outside, portmap
// serves host ports, and the API server reaches pods, wherever the pods are: in the node's own network, in the default
// Network, or in a Network whose addresses are taken elsewhere, too.
func TestServices(t *testing.T) {
	t.Parallel()
	const node = "n2"
	env.Network(t, "served", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, "served-host", "")
	env.Namespace(t, "served-plain", "")
	env.Namespace(t, "served-vpc", "served")
	// Host ports are beyond what pods have unless their namespace says so.
	env.Kubectl(t, "label", "namespace", "served-host", "served-plain", "served-vpc", "pod-security.kubernetes.io/enforce=privileged")
	for _, c := range []served{
		{"served-host", wire.DefaultPort, corev1.IPFamilyPolicyRequireDualStack},
		{"served-plain", 20080, corev1.IPFamilyPolicySingleStack},
		{"served-vpc", 20081, corev1.IPFamilyPolicySingleStack},
	} {
		t.Run(c.namespace, func(t *testing.T) {
			object := cluster.PodSpec{Namespace: c.namespace, Name: "server", Node: node}.Object()
			object.Labels["app"] = "server"
			object.Spec.HostNetwork = c.hostPort == wire.DefaultPort
			object.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: wire.DefaultPort, HostPort: c.hostPort}}
			var pod *corev1.Pod
			// The API server learns of the label some time later.
			cluster.Eventually(t, cluster.Patience, "pod "+object.Name+" is admitted", func(ctx context.Context) (err error) {
				pod, err = env.Clients.Kube.CoreV1().Pods(c.namespace).Create(ctx, object, metav1.CreateOptions{})
				return err
			})
			t.Cleanup(func() { env.DeletePod(t, pod) })
			service, err := env.Clients.Kube.CoreV1().Services(c.namespace).Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "server"},
				Spec: corev1.ServiceSpec{
					Type: corev1.ServiceTypeNodePort, IPFamilyPolicy: &c.families, Selector: object.Labels,
					Ports: []corev1.ServicePort{{Name: "echo", Port: wire.DefaultPort}, {Name: "http", Port: wire.HTTPPort}},
				},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			pod = env.WaitReady(t, pod)[0]
			checkServed(t, pod, service)
		})
	}
}

func checkServed(t *testing.T, pod *corev1.Pod, service *corev1.Service) {
	t.Helper()
	uid := string(pod.UID)
	for _, address := range service.Spec.ClusterIPs {
		for _, node := range env.Box.Nodes() {
			answers(t, "tcp", node, netip.AddrPortFrom(netip.MustParseAddr(address), wire.DefaultPort), uid)
		}
	}
	for _, name := range env.Box.Nodes() {
		addresses := env.NodeAddresses(t, name)
		for _, address := range addresses[:len(service.Spec.ClusterIPs)] {
			answers(t, "tcp", sandbox.Outside, netip.AddrPortFrom(address, uint16(service.Spec.Ports[0].NodePort)), uid)
			if name == pod.Spec.NodeName {
				port := uint16(pod.Spec.Containers[0].Ports[0].HostPort)
				answers(t, "tcp", sandbox.Outside, netip.AddrPortFrom(address, port), uid)
			}
		}
	}
	client := env.Clients.Kube.CoreV1().RESTClient()
	for resource, name := range map[string]string{"pods": fmt.Sprintf("%s:%d", pod.Name, wire.HTTPPort), "services": service.Name + ":http"} {
		cluster.Eventually(t, cluster.Patience, "the API server reaches "+resource+" "+name, func(ctx context.Context) error {
			text, err := client.Get().Namespace(pod.Namespace).Resource(resource).Name(name).SubResource("proxy").Suffix(wire.ReadyPath).DoRaw(ctx)
			if err != nil {
				return err
			}
			var by wire.Ready
			if err := json.Unmarshal(text, &by); err != nil {
				return err
			}
			if by.UID != uid {
				t.Fatalf("%s/%s: %+v answered, want %s", resource, name, by, uid)
			}
			return nil
		})
	}
}

// TestClusterDNS: CoreDNS answers at the address that kubelets give to pods, for the cluster's names and for others.
func TestClusterDNS(t *testing.T) {
	for _, network := range []string{"udp", "tcp"} {
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return env.DialFrom(ctx, "n1", network, "10.96.0.10:53")
		}}
		for name, want := range map[string][]netip.Addr{
			"kubernetes.default.svc.cluster.local.": {netip.MustParseAddr("10.96.0.1")},
			"alias.outside.test.":                   sandbox.OutsideAddresses(),
		} {
			cluster.Eventually(t, cluster.Patience, name+" by "+network, func(ctx context.Context) error {
				got, err := lookup(ctx, resolver, name)
				if err == nil && !slices.Equal(got, want) {
					err = fmt.Errorf("it is %v, want %v", got, want)
				}
				return err
			})
		}
	}
}

// lookup returns the addresses of a name, sorted.
func lookup(ctx context.Context, resolver *net.Resolver, name string) ([]netip.Addr, error) {
	got, err := resolver.LookupNetIP(ctx, "ip", name)
	for i := range got {
		got[i] = got[i].Unmap()
	}
	slices.SortFunc(got, netip.Addr.Compare)
	return got, err
}

// TestOutside: a node reaches the outside by name and by address.
func TestOutside(t *testing.T) {
	for _, node := range env.Box.Nodes() {
		for _, address := range sandbox.OutsideAddresses() {
			answers(t, "tcp", node, netip.AddrPortFrom(address, wire.DefaultPort), sandbox.Outside)
			answers(t, "udp", node, netip.AddrPortFrom(address, wire.DefaultPort), sandbox.Outside)
			fetch(t, node, "http://"+netip.AddrPortFrom(address, 80).String()+"/health")
		}
		nameserver, err := env.Box.Exec(t.Context(), node, "cat", "/etc/resolv.conf")
		if err != nil {
			t.Fatal(err)
		}
		var server string
		if _, err := fmt.Sscanf(string(nameserver), "nameserver %s", &server); err != nil {
			t.Fatalf("resolver of %s is %q: %v", node, nameserver, err)
		}
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return env.DialFrom(ctx, node, network, net.JoinHostPort(server, "53"))
		}}
		if got, err := lookup(t.Context(), resolver, "alias.outside.test."); err != nil || !slices.Equal(got, sandbox.OutsideAddresses()) {
			t.Errorf("alias.outside.test on %s is %v (%v), want %v", node, got, err, sandbox.OutsideAddresses())
		}
		texts, err := resolver.LookupTXT(t.Context(), "big.outside.test.")
		if err != nil || len(texts) != 1 || len(texts[0]) < 1000 {
			t.Errorf("what does not fit into a packet: %q (%v)", texts, err)
		}
	}
}

// TestNRI: a plugin of the agent finds containerd's socket on the node's own /run.
func TestNRI(t *testing.T) {
	for _, node := range env.Box.Nodes() {
		if _, err := env.Box.Exec(t.Context(), node, "test", "-S", "/var/run/nri/nri.sock"); err != nil {
			t.Error(err)
		}
	}
}

// answers waits until a netprobe of that identity, and no other, answers a place by TCP or UDP; an answer to a packet
// has to come from the address that was asked.
func answers(t *testing.T, network, from string, to netip.AddrPort, uid string) {
	t.Helper()
	token := cluster.NewToken(t)
	said := token
	if network == "tcp" {
		said += "\n"
	}
	cluster.Eventually(t, cluster.Patience, fmt.Sprintf("%s reaches %s by %s", from, to, network), func(ctx context.Context) error {
		conn, err := env.DialFrom(ctx, from, network, to.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			return err
		}
		if _, err := fmt.Fprint(conn, said); err != nil {
			return err
		}
		var answer wire.Answer
		if err := json.NewDecoder(conn).Decode(&answer); err != nil {
			return err
		}
		if answer.Token != token || answer.Answerer.UID != uid {
			t.Fatalf("%s: %+v answered %s, want %s with %s", to, answer.Answerer, answer.Token, uid, token)
		}
		return nil
	})
}

// fetch gets a page from a place.
func fetch(t *testing.T, from, url string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return env.DialFrom(ctx, from, network, address)
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		t.Errorf("from %s: %v", from, err)
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("from %s: %s gives %s", from, url, response.Status)
	}
}
