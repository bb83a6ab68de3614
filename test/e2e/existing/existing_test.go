//go:build e2e

package existing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/tier"
)

// installWithin is how long the installation may take on a busy machine.
const installWithin = 5 * time.Minute

// env is set by TestMain before any test runs.
var env *cluster.Cluster

func TestMain(m *testing.M) {
	cluster.MainBareOf(m, 2, func(ctx context.Context, c *cluster.Cluster) error {
		env = c
		return startTheirs(ctx)
	})
}

// their is the namespace of the cluster's own OVN (testdata/theirs.yaml).
const their = "their-ovn"

// startTheirs starts the cluster's own OVN, and waits until its pods run.
func startTheirs(ctx context.Context) error {
	if out, err := env.Program(ctx, "kubectl", "apply", "--server-side", "-f",
		"test/e2e/existing/testdata/theirs.yaml").CombinedOutput(); err != nil {
		return fmt.Errorf("start an OVN: %w\n%s", err, out)
	}
	for _, wait := range [][]string{
		{"rollout", "status", "-n", their, "daemonset/node", "--timeout=3m"},
		{"wait", "-n", their, "pod/central", "--for=condition=Ready", "--timeout=3m"},
	} {
		if out, err := env.Program(ctx, append([]string{"kubectl"}, wait...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("wait for an OVN: %w\n%s", err, out)
		}
	}
	return nil
}

// theirs is what others have in the same northbound database: a row in each table that Atoll writes, and what they set of OVN as a whole.
const theirs = `ls-add theirs
-- lsp-add theirs theirs-1 -- lsp-set-addresses theirs-1 unknown
-- lr-add their-router -- lrp-add their-router their-leg 00:00:00:00:00:01 192.0.2.1/24
-- lr-route-add their-router 198.51.100.0/24 192.0.2.2 -- lr-policy-add their-router 10 ip4 allow
-- lb-add their-lb 192.0.2.10:80 192.0.2.11:80 -- ls-lb-add theirs their-lb
-- pg-add their_group theirs-1 -- acl-add their_group to-lport 1000 ip4 drop
-- create Address_Set name=their_set addresses=192.0.2.1
-- create Load_Balancer_Group name=their-balancers
-- create Sample_Collector id=5 name=theirs set_id=5 probability=100
-- create Sampling_App type=acl-est id=2
-- meter-add their-meter drop 10 pktps
-- set NB_Global . options:use_ct_inv_match=true external_ids:whose=theirs`

// TestExisting: pods of a Network reach each other by the cluster's own OVN. Uninstalled, the northbound database and the nodes
// are as they were before, and others' rows have stayed. In make test-all an uninstallation that does not reach the database says
// what to do, and goes on when it is called again; and installed again, pods reach each other again.
func TestExisting(t *testing.T) {
	onTheirs(t, "nb", "ovn-nbctl", strings.Fields(theirs)...)
	var nodes map[string][]string
	cluster.Eventually(t, cluster.Patience, "nodes have tunnels", func(ctx context.Context) (err error) {
		nodes, err = env.Traces(ctx)
		for node, lines := range nodes {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "port ovn-") }) {
				return fmt.Errorf("%s has none: %q", node, lines)
			}
		}
		return err
	})
	// What OVN notes of its own is there before.
	onTheirs(t, "nb", "ovn-nbctl", "--wait=hv", "--timeout=60", "sync")
	before, bound := northbound(t), bindings(t)

	env.Namespace(t, "red", "red")
	install(t)
	pods := connect(t)
	// The control: without the uninstallation all of these are there.
	with := northbound(t)
	for _, text := range []string{"atoll.dev/owner", "atoll.dev/epoch", "acl-new", "Network/red", "red/one"} {
		if !strings.Contains(with, text) {
			t.Errorf("the northbound database has no %s:\n%s", text, with)
		}
	}

	if tier.All() {
		thaw := freezeTheirs(t)
		out, err := atoll(t, "uninstall", "--force")
		if err == nil || !strings.Contains(out, "tcp:172.30.0.11:6641") || !strings.Contains(out, "--leave-northbound") {
			t.Errorf("uninstalled without the database: %v\n%s", err, out)
		}
		thaw()
	}
	began := time.Now()
	if out, err := atoll(t, "uninstall", "--force"); err != nil {
		t.Fatalf("uninstall: %v\n%s", err, out)
	}
	t.Logf("uninstalled after %.0f s", time.Since(began).Seconds())
	if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(northbound(t), "\n")); diff != "" {
		t.Errorf("the northbound database (-before +after):\n%s", diff)
	}
	cluster.Eventually(t, cluster.Patience, "the southbound database follows", func(context.Context) error {
		if now := bindings(t); now != bound {
			return fmt.Errorf("ports %q, want %q", now, bound)
		}
		return nil
	})
	env.WaitGone(t, pods...)
	env.NothingLeft(t, nodes, "d /run/atoll")

	if tier.All() {
		install(t)
		connect(t)
	}
}

func install(t *testing.T) {
	t.Helper()
	began := time.Now()
	if out, err := atoll(t, "install", "-k", filepath.Join(env.Root, "test/e2e/existing/testdata"),
		"--timeout="+installWithin.String()); err != nil {
		state, _ := env.Program(t.Context(), "kubectl", "get", "pods", "-A", "-o", "wide").CombinedOutput()
		t.Fatalf("install: %v\n%s\n%s", err, out, state)
	}
	t.Logf("installed after %.0f s", time.Since(began).Seconds())
}

// connect has two pods of a Network, one on each node, reach each other.
func connect(t *testing.T) []*corev1.Pod {
	t.Helper()
	env.Network(t, "red", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("front", "10.0.0.0/24")}})
	var pods []*corev1.Pod
	for i, name := range []string{"one", "two"} {
		pods = append(pods, env.Pod(t, cluster.PodSpec{Namespace: "red", Name: name, Node: env.Box.Nodes()[i]}))
	}
	pods = env.WaitReady(t, pods...)
	env.Reach(t, pods[0], pods[1])
	env.Reach(t, pods[1], pods[0])
	return pods
}

// northbound is all that the northbound database holds.
func northbound(t *testing.T) string {
	t.Helper()
	return onTheirs(t, "nb", "ovsdb-client", "--format=csv", "dump", "unix:/run/ovn/ovnnb_db.sock", "OVN_Northbound")
}

// bindings are the names of the ports of the southbound database.
func bindings(t *testing.T) string {
	t.Helper()
	names := strings.Fields(onTheirs(t, "sb", "ovn-sbctl", "--bare", "--columns=logical_port", "list", "Port_Binding"))
	slices.Sort(names)
	return strings.Join(names, " ")
}

// onTheirs runs a program in a container of their central pod.
func onTheirs(t *testing.T, container, program string, words ...string) string {
	t.Helper()
	argv := append([]string{"kubectl", "exec", "-n", their, "central", "-c", container, "--", program}, words...)
	cmd := env.Program(t.Context(), argv...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, words, err, stderr.String())
	}
	return string(out)
}

// freezeTheirs freezes their northbound database: who connects gets no answer. It returns what lets it go on.
func freezeTheirs(t *testing.T) (thaw func()) {
	t.Helper()
	signal := func(ctx context.Context, signal syscall.Signal) error {
		p, err := env.Clients.Kube.CoreV1().Pods(their).Get(ctx, "central", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return env.EndContainer(ctx, p, "nb", signal)
	}
	if err := signal(t.Context(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	thaw = sync.OnceFunc(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if err := signal(ctx, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(thaw)
	return thaw
}

// atoll runs the command line. What it prints is shown as it comes, and returned.
func atoll(t *testing.T, words ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := env.Atoll(t.Context(), io.MultiWriter(os.Stdout, &out), words...)
	return out.String(), err
}
