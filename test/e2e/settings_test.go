//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
)

// TestSettings: a mistake in the AtollConfig says so, and pods go on and start as before, also after a restart of the controller.
// What may change takes effect while everything runs: in the controller's rows, in each node's rules, in who answers for names;
// and no question is lost on the way.
//
// It runs alone: it changes what all pods go by.
func TestSettings(t *testing.T) {
	const ns, node = "settings", "n1"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}, Egress: v1alpha1.EgressNode})
	env.Namespace(t, ns, ns)
	pod := func(name string) cluster.PodSpec { return cluster.PodSpec{Namespace: ns, Name: name, Node: node} }
	client := env.WaitReady(t, env.Pod(t, pod("client")))[0]
	before := settings(t.Context(), t)
	outside := wire.Target{Address: sandbox.OutsideAddresses()[0], Protocol: wire.TCP}
	reaches := func(want bool) {
		t.Helper()
		env.AwaitProbes(t, client, []wire.Target{outside}, func(r wire.Result) error {
			if r.Answered != want {
				return fmt.Errorf("answered %t, want %t", r.Answered, want)
			}
			return nil
		})
	}
	reaches(true)
	restore := fmt.Sprintf(
		`{"spec":{"serviceCIDRs":%s,"closedCIDRs":%s,"dns":{"addresses":["%s"]},"maxPodConnections":{"insideNetwork":65536}}}`,
		quoted(before.Spec.ServiceCIDRs), quoted(before.Spec.ClosedCIDRs), clusterDNS.Addr())
	t.Cleanup(func() { configure(t, restore) })

	// A mistake.
	configure(t, `{"spec":{"serviceCIDRs":["100.96.0.0/16"]}}`)
	awaitSettings(t, "InvalidSettings")
	if out, err := env.Program(t.Context(), "kubectl", "patch", "atollconfig", "cluster",
		"--type=merge", `--patch={"spec":{"faceCIDRs":["100.80.0.0/16"]}}`).CombinedOutput(); err == nil {
		t.Errorf("the range of faces changed while pods run: %s", out)
	}
	second := env.WaitReady(t, env.Pod(t, pod("second")))[0]
	env.Reach(t, second, client)
	controller := cluster.Daemon{Place: sandbox.Central, Name: "atoll-controller"}
	env.Kill(t, controller)
	third := env.WaitReady(t, env.Pod(t, pod("third")))[0]
	env.Reach(t, third, client)
	env.Reach(t, client, second)
	if now := awaitSettings(t, "InvalidSettings"); quoted(now.Status.Active.ServiceCIDRs) != quoted(before.Status.Active.ServiceCIDRs) {
		t.Errorf("in force are Services %s", now.Status.Active.ServiceCIDRs)
	}
	reaches(true)

	// What may change.
	may := func(addresses string) {
		t.Helper()
		configure(
			t, fmt.Sprintf(
				`{"spec":{"serviceCIDRs":%s,"closedCIDRs":["%s/32"],"dns":{"addresses":[%s]},"maxPodConnections":{"insideNetwork":5000}}}`,
				quoted(before.Spec.ServiceCIDRs), outside.Address, addresses))
		awaitSettings(t, "InForce")
	}
	for _, load := range whileAsking(t, client, func() {
		may(`"` + clusterDNS.Addr().String() + `"`)
		reaches(false)
		bounded(t, ns+"/client", "5000")
	}) {
		t.Logf("settings change: %d answers in %.1f s, longest %s", load.Answers, load.Seconds, load.Max)
		if len(load.Errors) > 0 || load.Answers < 100 {
			t.Errorf("while settings change: %d answers, failed: %v (%+v)", load.Answers, load.Errors, load.Failures)
		}
	}
	may(`"` + clusterDNS.Addr().String() + `","10.96.0.11"`)
	cluster.Eventually(t, cluster.Patience, "the nodes go by the other addresses", func(ctx context.Context) error {
		var reports v1alpha1.NodeReportList
		if err := env.Read(ctx, &reports, "nodereports"); err != nil {
			return err
		}
		for _, r := range reports.Items {
			if len(r.Status.ClusterDNS) != 2 {
				return fmt.Errorf("node %s goes by %s", r.Name, r.Status.ClusterDNS)
			}
		}
		return nil
	})
	cluster.Eventually(t, cluster.Patience, "names are answered at the second address", func(ctx context.Context) error {
		said, err := env.Dig(ctx, client, "-server=10.96.0.11", "A", "kubernetes.default.svc.cluster.local")
		if err == nil && said.Status != "NOERROR" {
			err = fmt.Errorf("%+v", said)
		}
		return err
	})
	env.Reach(t, second, client)
	fourth := env.WaitReady(t, env.Pod(t, pod("fourth")))[0]
	env.Reach(t, fourth, client)
	if err := env.CheckDatabases(t.Context()); err != nil {
		t.Error(err)
	}

	configure(t, restore)
	awaitSettings(t, "InForce")
	reaches(true)
	bounded(t, ns+"/client", "65536")
}

// quoted is a list as JSON has it.
func quoted[T ~string](list []T) string {
	out := "["
	for i, text := range list {
		if i > 0 {
			out += ","
		}
		out += `"` + string(text) + `"`
	}
	return out + "]"
}

// configure changes the cluster's settings by a merge patch.
func configure(t *testing.T, patch string) {
	t.Helper()
	ctx, cancel := cluster.AfterTest()
	defer cancel()
	if out, err := env.Program(ctx, "kubectl", "patch", "atollconfig", v1alpha1.ConfigName,
		"--type=merge", "--patch="+patch).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func settings(ctx context.Context, t *testing.T) (object v1alpha1.AtollConfig) {
	t.Helper()
	if err := env.Read(ctx, &object, "atollconfig", v1alpha1.ConfigName); err != nil {
		t.Fatal(err)
	}
	return object
}

// awaitSettings waits until the controller has judged the AtollConfig as it is.
func awaitSettings(t *testing.T, reason string) (object v1alpha1.AtollConfig) {
	t.Helper()
	cluster.Eventually(t, 30*time.Second, "the AtollConfig is judged", func(ctx context.Context) error {
		object = settings(ctx, t)
		c := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConfigValid)
		if c == nil || c.Reason != reason || c.ObservedGeneration != object.Generation {
			return fmt.Errorf("condition %+v of generation %d, want %s", c, object.Generation, reason)
		}
		return nil
	})
	return object
}

// bounded waits until a pod's port has this bound of connections.
func bounded(t *testing.T, pod, want string) {
	t.Helper()
	cluster.Eventually(t, cluster.Patience, "the bound of connections", func(ctx context.Context) error {
		got, err := env.Ctl(ctx, "ovn-nbctl", env.NBAddress(), "--bare", "--columns=options", "find", "Logical_Switch_Port", "name="+pod)
		if err != nil {
			return err
		}
		if !strings.Contains(got, "ct-zone-limit="+want) {
			return errors.New(got)
		}
		return nil
	})
}
