//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/policytrace"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// TestATenantsNameServers is the example of docs/dns.md. The pods of a tenant's default Network ask name servers that run in the
// tenant's service Network, at the cluster's DNS address. This works by faces and joined, and under policies that admit the
// cluster's DNS. Without a way there the questions reach no server. A Network of another owner that names the same Service reaches
// no server either, whatever that owner writes.
func TestATenantsNameServers(t *testing.T) {
	t.Parallel()
	const service, home, servers, web, thief = "garden--service", "garden", "garden-dns", "garden-web", "garden-thief"
	env.Apply(t, manifest(t, "tenant-dns/garden.yaml"))
	t.Cleanup(func() {
		for _, what := range [][]string{{"namespace", servers}, {"namespace", web}, {"network.atoll.dev", service}, {"tenant.atoll.dev", home}} {
			if out, err := env.Program(context.Background(),
				append([]string{"kubectl", "delete", "--wait=false", "--ignore-not-found"}, what...)...).CombinedOutput(); err != nil {
				t.Errorf("delete %v: %v\n%s", what, err, out)
			}
		}
	})
	// Its pods could dial the cluster's DNS, if their questions were not refused before.
	env.Network(t, thief, v1alpha1.NetworkSpec{Uses: []string{service}, InfraAccess: v1alpha1.InfraDirect, DNS: &v1alpha1.NetworkDNS{
		Mode: v1alpha1.DNSService, Service: &v1alpha1.ServiceReference{Namespace: servers, Name: "dns"},
	}})
	env.Namespace(t, thief, thief)
	server := nameServer(cluster.PodSpec{Namespace: servers, Name: "dns", App: "dns", Node: "n2"}, "dns")
	pods := env.WaitReady(t,
		env.Pod(t, cluster.PodSpec{Namespace: web, Name: "near", Node: "n2"}), env.Pod(t, cluster.PodSpec{
			Namespace: web, Name: "far", Node: "n1",
		}),
		env.Pod(t, cluster.PodSpec{Namespace: thief, Name: "client", Node: "n1"}), env.Make(t, server),
	)
	clients, stranger, server := pods[:2], pods[2], pods[3]
	// What the tenant's server has itself, and what it asks its node for.
	const own, asked = "gate.garden.test", "dns." + servers + ".svc.cluster.local"
	expect := func(when, status string, names ...string) {
		t.Helper()
		for _, from := range clients {
			for _, name := range names {
				wantStatus(t, when, from, name, status)
			}
		}
	}
	env.WaitCondition(t, home, model.ConditionDNSReady, metav1.ConditionTrue, "")
	expect("by faces", "NOERROR", own, asked)
	env.WaitCondition(t, thief, model.ConditionDNSReady, metav1.ConditionFalse, model.ReasonDNSServiceNotFound)
	wantStatus(t, "of a stranger", stranger, own, "")
	wantStatus(t, "of a stranger", stranger, asked, "")

	// The clients may ask the cluster's DNS and nobody else, the servers be asked by the tenant's pods alone.
	env.Apply(t, `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: names, namespace: garden-web}, spec: {podSelector: {}, policyTypes: [Egress], egress: [
		{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, podSelector: {matchLabels: {k8s-app: kube-dns}}}],
		ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]}]}}`)
	admits := func(namespace string) {
		t.Helper()
		env.Apply(t, `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: asked, namespace: garden-dns}, spec: {podSelector: {matchLabels: {app: dns}}, policyTypes: [Ingress], ingress: [
			{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+namespace+`}}}], ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]}]}}`)
	}
	admits("kube-system")
	expect("when the servers' own policy does not admit them", "", own)
	admits(web)
	expect("under policies that admit them", "NOERROR", own, asked)
	cluster.Eventually(t, cluster.Patience, "atoll policy trace follows a question", func(ctx context.Context) error {
		var said policytrace.Trace
		err := policyCommand(ctx, &said, "trace", web+"/far", clusterDNS.Addr().String(), "--port", "53", "--protocol", "udp")
		if err == nil &&
			(len(said.Paths) != 1 || said.Paths[0].To != server.Status.PodIP || said.Paths[0].Dialled != clusterDNS.String() ||
				said.Paths[0].Steps[0].Verdict != "allow") {
			err = fmt.Errorf("it says %+v", said)
		}
		return err
	})

	// Without a way there nobody answers, neither the node nor the cluster's DNS, and the Network says so.
	const saidWithin = 10 * time.Second
	env.ChangeNetwork(t, service, func(s *v1alpha1.NetworkSpec) { s.CompatibleWith = nil })
	env.WaitConditionWithin(t, saidWithin, home, model.ConditionDNSReady, metav1.ConditionFalse, model.ReasonDNSServiceNotReached)
	expect("without a way there", "", own, asked)
	env.ChangeNetwork(t, service, func(s *v1alpha1.NetworkSpec) {
		s.CompatibleWith = []v1alpha1.CompatiblePeer{{Tenant: home, Mode: v1alpha1.CompatibilityRouted}}
	})
	env.WaitCondition(t, home, model.ConditionDNSReady, metav1.ConditionTrue, "")
	expect("joined", "NOERROR", own, asked)
	env.DeletePod(t, server)
	env.WaitConditionWithin(t, saidWithin, home, model.ConditionDNSReady, metav1.ConditionFalse, model.ReasonDNSServiceWithoutEndpoints)
	expect("without a server", "", own, asked)
}

// wantStatus waits until a question gets an answer with a status, by UDP and by TCP; empty: none at all.
func wantStatus(t *testing.T, when string, from *corev1.Pod, name, status string) {
	t.Helper()
	for _, way := range []string{"-tcp=false", "-tcp=true"} {
		cluster.Eventually(t, cluster.Patience,
			fmt.Sprintf("%s: %s/%s asks for %s %s", when, from.Namespace, from.Name, name, way), func(ctx context.Context) error {
				said, err := env.Dig(ctx, from, way, "A", name)
				if err == nil && (said.Status != status || (said.Error == "") != (status != "")) {
					err = fmt.Errorf("got %+v, want %q", said, status)
				}
				return err
			})
	}
}

// manifest reads one of the files of docs/examples.
func manifest(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(env.Root, "docs/examples", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
