//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/sandbox"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// TestAccess opens and closes a living Network's ways out. Each change counts for a pod that runs, and what is closed is
// refused at once rather than left to wait.
func TestAccess(t *testing.T) {
	t.Parallel()
	const ns, infra = "access", "access-infra"
	env.network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}}}})
	env.namespace(t, ns, ns)
	env.namespace(t, infra, "")
	mayList(t, ns)
	object := podSpec{namespace: ns, name: "client", node: "n1"}.object()
	token := true
	object.Spec.AutomountServiceAccountToken = &token
	service := env.service(t, infra, "server", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: wire.DefaultPort}}})
	pods := env.waitReady(t, env.make(t, object),
		env.pod(t, podSpec{namespace: infra, name: "server", app: "server", node: "n2"}),
		env.make(t, onHost(infra, "host", "n3")),
	)
	client, server, host := pods[0], pods[1], pods[2]
	outside := sandbox.OutsideAddresses()
	const (
		egress = "egress"
		direct = "direct"
	)
	targets := []struct {
		what, opens, uid string
		address          netip.Addr
	}{
		{"outside", egress, sandbox.Outside, outside[0]},
		{"outside by IPv6", egress, sandbox.Outside, outside[1]},
		{"pod of the default Network", direct, string(server.UID), netip.MustParseAddr(server.Status.PodIP)},
		{"Service of the default Network", direct, string(server.UID), netip.MustParseAddr(service.Spec.ClusterIP)},
		{"node", direct, string(host.UID), nodeAddresses(t, "n3")[0]},
		{"node by IPv6", direct, string(host.UID), nodeAddresses(t, "n3")[1]},
	}
	for _, step := range []struct {
		egress v1alpha1.Egress
		infra  v1alpha1.InfraAccess
	}{
		{v1alpha1.EgressNode, v1alpha1.InfraServices},
		{v1alpha1.EgressNone, v1alpha1.InfraServices},
		{v1alpha1.EgressNone, v1alpha1.InfraNone},
		{v1alpha1.EgressNone, v1alpha1.InfraDirect},
		{v1alpha1.EgressNode, v1alpha1.InfraNone},
		{v1alpha1.EgressNode, v1alpha1.InfraDirect},
	} {
		env.changeNetwork(t, ns, func(s *v1alpha1.NetworkSpec) { s.Egress, s.InfraAccess = step.egress, step.infra })
		began := time.Now()
		open := map[string]bool{egress: step.egress == v1alpha1.EgressNode, direct: step.infra == v1alpha1.InfraDirect}
		what := fmt.Sprintf("egress %s and infraAccess %s", step.egress, step.infra)
		eventually(t, patience, what, func(ctx context.Context) error {
			var asked []wire.Target
			for _, target := range targets {
				asked = append(asked, wire.Target{Address: target.address, Protocol: wire.TCP, Token: newToken(t)})
			}
			results, err := matrix.Probe(ctx, env.exec, client.Namespace, client.Name, asked)
			if err != nil {
				return err
			}
			var wrong []error
			for i, target := range targets {
				r := results[asked[i].Token]
				switch {
				case r.Answered && r.By.UID != target.uid:
					t.Fatalf("%s: %s answered", target.what, r.By)
				case r.Answered != open[target.opens]:
					wrong = append(wrong, fmt.Errorf("%s: %+v", target.what, r))
				case !r.Answered && !strings.Contains(r.Error, "refused"):
					wrong = append(wrong, fmt.Errorf("%s is not told of: %+v", target.what, r))
				}
			}
			if step.infra == v1alpha1.InfraNone {
				// Not at its real address either.
				server := wire.Target{Address: apiServer(t).Addr(), Port: apiServer(t).Port(), Protocol: wire.TCP, Token: newToken(t)}
				results, err := matrix.Probe(ctx, env.exec, client.Namespace, client.Name, []wire.Target{server})
				if err != nil {
					return err
				}
				if results[server.Token].Connected {
					wrong = append(wrong, fmt.Errorf("the API server takes a connection at %s", server.AddrPort()))
				}
			}
			_, err = env.exec(ctx, client.Namespace, client.Name, nil, matrix.Program, "api")
			if (err == nil) != (step.infra != v1alpha1.InfraNone) {
				wrong = append(wrong, fmt.Errorf("the Kubernetes API: %w", err))
			}
			return errors.Join(wrong...)
		})
		t.Logf("%s counts after %s", what, time.Since(began).Round(time.Millisecond))
	}
}

// apiServer is where an API server is really reached.
func apiServer(t *testing.T) netip.AddrPort {
	t.Helper()
	endpoints, err := env.clients.Kube.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(netip.MustParseAddr(endpoints.Endpoints[0].Addresses[0]), uint16(*endpoints.Ports[0].Port))
}

// onHost is a pod of its node's own network that serves.
func onHost(namespace, name, node string) *corev1.Pod {
	object := podSpec{namespace: namespace, name: name, node: node}.object()
	object.Spec.HostNetwork = true
	return object
}

// mayList lets the pods of a namespace list each other.
func mayList(t *testing.T, namespace string) {
	t.Helper()
	_, err := env.clients.Kube.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "see-pods"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = env.clients.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "see-pods"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "default"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "see-pods"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
