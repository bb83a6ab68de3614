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

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
)

// TestAccess opens and closes a living Network's ways out. Each change counts for a pod that runs, and what is closed is
// refused at once rather than left to wait.
func TestAccess(t *testing.T) {
	t.Parallel()
	const ns, infra = "access", "access-infra"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}}}})
	env.Namespace(t, ns, ns)
	env.Namespace(t, infra, "")
	env.MayList(t, ns)
	object := cluster.PodSpec{Namespace: ns, Name: "client", Node: "n1"}.Object()
	token := true
	object.Spec.AutomountServiceAccountToken = &token
	service := env.Service(t, infra, "server", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: wire.DefaultPort}}})
	pods := env.WaitReady(t, env.Make(t, object),
		env.Pod(t, cluster.PodSpec{Namespace: infra, Name: "server", App: "server", Node: "n2"}),
		env.Make(t, cluster.OnHost(infra, "host", "n3")),
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
		{"node", direct, string(host.UID), env.NodeAddresses(t, "n3")[0]},
		{"node by IPv6", direct, string(host.UID), env.NodeAddresses(t, "n3")[1]},
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
		env.ChangeNetwork(t, ns, func(s *v1alpha1.NetworkSpec) { s.Egress, s.InfraAccess = step.egress, step.infra })
		began := time.Now()
		open := map[string]bool{egress: step.egress == v1alpha1.EgressNode, direct: step.infra == v1alpha1.InfraDirect}
		what := fmt.Sprintf("egress %s and infraAccess %s", step.egress, step.infra)
		cluster.Eventually(t, cluster.Patience, what, func(ctx context.Context) error {
			var asked []wire.Target
			for _, target := range targets {
				asked = append(asked, wire.Target{Address: target.address, Protocol: wire.TCP, Token: cluster.NewToken(t)})
			}
			results, err := matrix.Probe(ctx, env.Exec, client.Namespace, client.Name, asked)
			if err != nil {
				return err
			}
			var wrong []error
			for i, target := range targets {
				r := results[asked[i].Token]
				switch {
				case r.Answered && r.Answerer.UID != target.uid:
					t.Fatalf("%s: %s answered", target.what, r.Answerer)
				case r.Answered != open[target.opens]:
					wrong = append(wrong, fmt.Errorf("%s: %+v", target.what, r))
				case !r.Answered && !strings.Contains(r.Error, "refused"):
					wrong = append(wrong, fmt.Errorf("%s is not told of: %+v", target.what, r))
				}
			}
			if step.infra == v1alpha1.InfraNone {
				// Not at its real address either.
				server := wire.Target{Address: env.APIServer(t).Addr(), Port: env.APIServer(t).Port(), Protocol: wire.TCP, Token: cluster.NewToken(t)}
				results, err := matrix.Probe(ctx, env.Exec, client.Namespace, client.Name, []wire.Target{server})
				if err != nil {
					return err
				}
				if results[server.Token].Connected {
					wrong = append(wrong, fmt.Errorf("the API server takes a connection at %s", server.AddrPort()))
				}
			}
			_, err = env.Exec(ctx, client.Namespace, client.Name, nil, matrix.Program, "api")
			if (err == nil) != (step.infra != v1alpha1.InfraNone) {
				wrong = append(wrong, fmt.Errorf("the Kubernetes API: %w", err))
			}
			return errors.Join(wrong...)
		})
		t.Logf("%s counts after %s", what, time.Since(began).Round(time.Millisecond))
	}
}
