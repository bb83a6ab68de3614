//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/tier"
)

// TestNames: the same names in two Networks of the same addresses lead each to its own, in each type of record, by UDP
// and by TCP; and no name or address of the one exists in the other. Outside of make test-all each question goes by UDP in one of
// the Networks and by TCP in the other.
func TestNames(t *testing.T) {
	t.Parallel()
	const domain = ".svc.cluster.local"
	both := corev1.IPFamilyPolicyRequireDualStack
	spaces := []string{"names-a", "names-b"}
	servers, services := map[string]*corev1.Pod{}, map[string]*corev1.Service{}
	for _, ns := range spaces {
		env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}}}})
		env.Namespace(t, ns, ns)
		ports := []corev1.ServicePort{{Name: "echo", Port: 80}}
		services[ns] = env.Service(t, ns, "web", corev1.ServiceSpec{IPFamilyPolicy: &both, Ports: ports})
		headless := corev1.ServiceSpec{IPFamilyPolicy: &both, ClusterIP: corev1.ClusterIPNone, Ports: ports}
		headless.Selector = map[string]string{"app": "web"}
		_, err := env.Clients.Kube.CoreV1().Services(ns).Create(t.Context(),
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "peers"}, Spec: headless}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		object := cluster.PodSpec{Namespace: ns, Name: "web-0", App: "web", Node: "n1", NICs: `[{"ip":"10.0.0.40"}]`}.Object()
		object.Spec.Hostname, object.Spec.Subdomain = "web-0", "peers"
		servers[ns] = env.Make(t, object)
	}
	for i, ns := range spaces {
		other := spaces[1-i]
		server := env.WaitReady(t, servers[ns])[0]
		var own []string
		for _, prefix := range cluster.AttachmentOf(t, server).Addresses {
			own = append(own, prefix.Addr().String())
		}
		virtual, stranger := services[ns].Spec.ClusterIPs, services[other].Spec.ClusterIPs
		if len(own) != 2 || len(virtual) != 2 || slices.Equal(virtual, stranger) {
			t.Fatalf("%s has addresses %q, its Service %q, the other Service %q", ns, own, virtual, stranger)
		}
		web, peers := "web."+ns+domain, "peers."+ns+domain
		for row, q := range []struct {
			kind, name, status string
			want               []string
		}{
			{"A", web, "NOERROR", virtual[:1]},
			{"AAAA", web, "NOERROR", virtual[1:]},
			// One of two addresses: half the weight.
			{"SRV", "_echo._tcp." + web, "NOERROR", []string{"0 50 80 " + web + "."}},
			{"PTR", reverse(t, virtual[0]), "NOERROR", []string{web + "."}},
			{"PTR", reverse(t, virtual[1]), "NOERROR", []string{web + "."}},
			{"A", peers, "NOERROR", own[:1]},
			{"AAAA", peers, "NOERROR", own[1:]},
			{"A", "web-0." + peers, "NOERROR", own[:1]},
			// The pod is behind both Services; one that gives itself no name is called by its address.
			{"PTR", reverse(t, own[0]), "NOERROR", []string{"10-0-0-40." + web + ".", "web-0." + peers + "."}},
			{"A", "kubernetes.default" + domain, "NOERROR", []string{"10.96.0.1"}},
			{"TXT", web, "NOERROR", nil},
			{"A", "nobody." + ns + domain, "NXDOMAIN", nil},
			{"A", "web." + other + domain, "NXDOMAIN", nil},
			{"SRV", "_echo._tcp.web." + other + domain, "NXDOMAIN", nil},
			{"A", "web-0.peers." + other + domain, "NXDOMAIN", nil},
			{"PTR", reverse(t, stranger[0]), "NXDOMAIN", nil},
			{"A", "kube-dns.kube-system" + domain, "NXDOMAIN", nil},
			{"A", "alias.outside.test", "NOERROR", []string{sandbox.OutsideAddresses()[0].String(), "www.outside.test."}},
		} {
			ways := []string{"-tcp=false", "-tcp=true"}
			if one := (row + i) % 2; !tier.All() {
				ways = ways[one : one+1]
			}
			for _, way := range ways {
				cluster.Eventually(t, cluster.Patience, fmt.Sprintf("%s asks %s %s %s", ns, q.kind, q.name, way), func(ctx context.Context) error {
					said, err := env.Dig(ctx, server, way, q.kind, q.name)
					if err == nil && (said.Status != q.status || said.Truncated || !slices.Equal(said.Records, q.want)) {
						err = fmt.Errorf("got %+v, want %s %q", said, q.status, q.want)
					}
					return err
				})
			}
		}
		// What does not fit into a packet is said by TCP.
		for way, whole := range map[string]bool{"-tcp=false": false, "-tcp=true": true} {
			said, err := env.Dig(t.Context(), server, way, "TXT", "big.outside.test")
			if err != nil || said.Status != "NOERROR" || said.Truncated == whole || whole && len(strings.Join(said.Records, "")) < 1000 {
				t.Errorf("big.outside.test %s: %+v (%v)", way, said, err)
			}
		}
	}
}

func reverse(t *testing.T, address string) string {
	t.Helper()
	name, err := dns.ReverseAddr(netip.MustParseAddr(address).String())
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestDNSModes changes who answers a living Network's questions: its node, nobody, a Service of its own, its node again.
// Pods ask at the same address all the time.
func TestDNSModes(t *testing.T) {
	t.Parallel()
	const ns = "modes"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, ns, ns)
	env.Service(t, ns, "web", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}})
	env.Service(t, ns, "own-dns", corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP},
	}})
	pods := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "client", Node: "n1"}), env.Make(t, ownDNS(t, ns)))
	node := v1alpha1.NetworkDNS{Mode: v1alpha1.DNSNode}
	for _, step := range []struct {
		dns v1alpha1.NetworkDNS
		// tenant and cluster are the statuses of a name that only the tenant's server has, and of the cluster's.
		tenant, cluster string
	}{
		{node, "NXDOMAIN", "NOERROR"},
		{v1alpha1.NetworkDNS{Mode: v1alpha1.DNSNone}, "", ""},
		{
			v1alpha1.NetworkDNS{Mode: v1alpha1.DNSService, Service: &v1alpha1.ServiceReference{Namespace: ns, Name: "own-dns"}},
			"NOERROR",
			"REFUSED",
		},
		{node, "NXDOMAIN", "NOERROR"},
	} {
		env.ChangeNetwork(t, ns, func(s *v1alpha1.NetworkSpec) { s.DNS = &step.dns })
		began := time.Now()
		for name, status := range map[string]string{"only.tenant.test": step.tenant, "web." + ns + ".svc.cluster.local": step.cluster} {
			wantStatus(t, fmt.Sprintf("mode %s", step.dns.Mode), pods[0], name, status)
		}
		t.Logf("mode %s counts after %s", step.dns.Mode, time.Since(began).Round(time.Millisecond))
	}
}

// ownDNS is a pod with a DNS server of the tenant's choice.
func ownDNS(t *testing.T, namespace string) *corev1.Pod {
	t.Helper()
	_, err := env.Clients.Kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "own-dns"},
		Data: map[string]string{
			"Corefile": "tenant.test:53 {\n  file /config/zone\n}\n",
			"zone": "$ORIGIN tenant.test.\n@ 60 IN SOA ns.tenant.test. hostmaster.tenant.test. 1 60 60 60 60\n" +
				"@ 60 IN NS ns.tenant.test.\nonly 60 IN A 192.0.2.7\n",
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return nameServer(cluster.PodSpec{Namespace: namespace, Name: "own-dns", App: "own-dns", Node: "n2"}, "own-dns")
}

// nameServer is a pod with CoreDNS, as a ConfigMap of its namespace has it.
func nameServer(s cluster.PodSpec, config string) *corev1.Pod {
	object := s.Object()
	object.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: config},
	}}}}
	container := &object.Spec.Containers[0]
	container.Image, container.Command, container.Args = "atoll.dev/coredns:sandbox", nil, []string{"-conf", "/config/Corefile"}
	container.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/config"}}
	container.StartupProbe, container.ReadinessProbe = nil, quick(corev1.ProbeHandler{
		TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(53)},
	})
	return object
}
