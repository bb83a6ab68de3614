//go:build e2e

package hostile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// nodeReports are those of the cluster, for the tests' own user or somebody else.
func nodeReports(t *testing.T, as rest.ImpersonationConfig) dynamic.ResourceInterface {
	t.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = as
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(v1alpha1.SchemeGroupVersion.WithResource("nodereports"))
}

// runOn runs a command in a node's network.
func runOn(ctx context.Context, node, command string) error {
	if out, err := env.Box.Exec(ctx, node, strings.Fields(command)...); err != nil {
		return fmt.Errorf("%s on %s: %w\n%s", command, node, err, out)
	}
	return nil
}

// TestAddressesThatTheAPIDoesNotList: a node has an address, as in a storage network, that its Node does not list and OVN does
// not use. Where other nodes route it, pods would reach its kubelet there.
func TestAddressesThatTheAPIDoesNotList(t *testing.T) {
	storage := netip.MustParseAddr("203.0.113.99")
	const kubelet = 10250
	via := env.NodeAddresses(t, "n2")[0]
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		_ = runOn(ctx, "n1", fmt.Sprintf("ip route del %s/32", storage))
		_ = runOn(ctx, "n2", "ip link del storage0")
	})
	for _, step := range []struct{ node, command string }{
		{"n2", "ip link add storage0 type veth peer name storage1"},
		{"n2", fmt.Sprintf("ip address add %s/32 dev storage0", storage)},
		{"n2", "ip link set storage0 up"},
		{"n2", "ip link set storage1 up"},
		{"n1", fmt.Sprintf("ip route add %s/32 via %s", storage, via)},
	} {
		if err := runOn(t.Context(), step.node, step.command); err != nil {
			t.Fatal(err)
		}
	}
	reports := nodeReports(t, rest.ImpersonationConfig{})
	cluster.Eventually(t, cluster.Patience, "n2 tells of its address", func(ctx context.Context) error {
		out, err := env.Program(ctx, "kubectl", "get", "nodereports").CombinedOutput()
		if err == nil && !strings.Contains(string(out), storage.String()) {
			err = errors.New("it does not")
		}
		if err != nil {
			return fmt.Errorf("%w:\n%s", err, out)
		}
		return nil
	})
	var attacks []attack
	for _, name := range []string{"attackers/weak", "attackers/strong"} {
		attacks = append(attacks, attack{
			name + " dials a kubelet at an address that the API does not list", dials(member(t, name), storage, kubelet, wire.TCP),
		})
	}
	// The other nodes learn of it as soon as it is told.
	cluster.Eventually(t, cluster.Patience, "the address is closed", func(ctx context.Context) error { return all(ctx, attacks, held) })
	agent := cluster.Daemon{Place: "n2", Name: "atoll-agent"}
	defence{name: "the report of n2", out: func(t *testing.T) func() {
		t.Helper()
		start := env.Stop(t, agent)
		if err := reports.Delete(t.Context(), "n2", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		return start
	}}.holds(t, attacks...)
}

// TestNodesTellOfThemselves: an attacker who controls the agent of one node writes the report of another, to open its addresses. A
// user who may write everything in a namespace tries the same.
func TestNodesTellOfThemselves(t *testing.T) {
	stolen := nodeReports(t, rest.ImpersonationConfig{
		UserName: "system:serviceaccount:atoll-system:atoll-agent",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:atoll-system", "system:authenticated", "atoll.dev:node:n1"},
	})
	overwrites := func(by dynamic.ResourceInterface, node string) attempt {
		return writes(func(ctx context.Context) error {
			report, err := nodeReports(t, rest.ImpersonationConfig{}).Get(ctx, node, metav1.GetOptions{})
			if err != nil {
				return err
			}
			unstructured.RemoveNestedField(report.Object, "status")
			_, err = by.Update(ctx, report, metav1.UpdateOptions{DryRun: dry()})
			return err
		})
	}
	if got, err := overwrites(stolen, "n1")(t.Context()); err != nil || got == "" {
		t.Fatalf("an agent cannot write its own report (%v): this test shows nothing", err)
	}
	policy("atoll-node-reports").holds(t,
		attack{"the agent of n1 writes the report of n2", overwrites(stolen, "n2")},
		attack{"the agent of n1 makes a report of a node that is none", writes(func(ctx context.Context) error {
			_, err := stolen.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "NodeReport", "metadata": map[string]any{"name": "nowhere"},
			}}, metav1.CreateOptions{DryRun: dry()})
			return err
		})},
	)
	everything(t)
	if got, err := overwrites(nodeReports(t, rest.ImpersonationConfig{UserName: "mallory-the-owner"}), "n2")(t.Context()); err != nil ||
		got != "" {
		t.Errorf("who owns a namespace writes a node's report: %s (error %v)", got, err)
	}
}
