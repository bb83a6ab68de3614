//go:build e2e

package installed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/cli/connectivity"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

const (
	testRed  = "atoll-connectivity-red"
	testBlue = "atoll-connectivity-blue"
)

// connectivityTest runs atoll connectivity test as a user does, and returns what it found and its exit status.
func connectivityTest(t *testing.T, words ...string) (connectivity.Report, int) {
	t.Helper()
	program := filepath.Join(filepath.Dir(env.Options.Program), "atoll")
	cmd := env.Program(t.Context(),
		append([]string{"central", "exec", "--", program, "connectivity", "test", "-o", "json", "--kubeconfig=" + env.Box.Kubeconfig()},
			words...)...)
	var out, progress bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &progress
	err := cmd.Run()
	var report connectivity.Report
	if jsonErr := json.Unmarshal(out.Bytes(), &report); jsonErr != nil {
		t.Fatalf("atoll connectivity test %v: %v: %v\n%s%s", words, err, jsonErr, progress.Bytes(), out.Bytes())
	}
	t.Logf("atoll connectivity test %v: status %d, %s", words, cmd.ProcessState.ExitCode(), report.Summary())
	return report, cmd.ProcessState.ExitCode()
}

// checkConnectivityGone fails if anything of the test is left in the API.
func checkConnectivityGone(t *testing.T) {
	t.Helper()
	for _, what := range []string{"namespaces,networks", "pods,services,networkpolicies"} {
		out, err := kubectl(t.Context(), "get", what, "-A", "-o", "name")
		if err != nil || strings.Contains(out, "connectivity") {
			t.Errorf("is left: %v\n%s", err, out)
		}
	}
}

// failures are the results that are not as expected, as FROM: PATH.
func failures(r connectivity.Report) (all []string) {
	for _, one := range r.Results {
		if one.Verdict == connectivity.Failed {
			all = append(all, one.From+": "+one.Path)
		}
	}
	return all
}

// TestConnectivity: on a whole cluster every path is as expected, none is left out, and nothing stays behind, also after a test
// that was cut.
func TestConnectivity(t *testing.T) {
	// A test that somebody kills cannot remove what it has made.
	program := filepath.Join(filepath.Dir(env.Options.Program), "atoll")
	cut := env.Program(t.Context(), "central", "exec", "--", "timeout", "-s", "KILL", "4", program,
		"connectivity", "test", "--kubeconfig="+env.Box.Kubeconfig())
	if out, err := cut.CombinedOutput(); err == nil {
		t.Fatalf("the test was over before it was killed:\n%s", out)
	}
	if out, err := kubectl(t.Context(), "get", "networks", testRed, testBlue, "-o", "name"); err != nil {
		t.Fatalf("a test that was killed has left nothing: %v\n%s", err, out)
	}
	report, status := connectivityTest(t, "--external=www.outside.test:8081")
	if status != 0 || len(failures(report)) > 0 || report.Count(connectivity.NotTried) > 0 || report.Count(connectivity.OK) < 50 {
		t.Errorf("status %d, failed %q, %s", status, failures(report), report.Summary())
		for _, one := range report.Results {
			t.Logf("%+v", one)
		}
	}
	checkConnectivityGone(t)
}

// TestConnectivityKept: what is kept is there, and the commands that a failure names work on it; then it is removed.
func TestConnectivityKept(t *testing.T) {
	report, status := connectivityTest(t, "--keep")
	if status != 0 || !report.Kept {
		t.Errorf("status %d, %+v", status, report)
	}
	if out, err := atoll(t.Context(), "pod", testRed+"/near"); err != nil {
		t.Errorf("atoll pod: %v\n%s", err, out)
	}
	pods, err := env.Clients.Kube.CoreV1().Pods(testRed).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 3 {
		t.Errorf("%d pods are kept: %v", len(pods.Items), err)
	}
	if out, err := atoll(t.Context(), "connectivity", "clean"); err != nil {
		t.Errorf("clean: %v\n%s", err, out)
	}
	checkConnectivityGone(t)
}

// TestConnectivityFinds: each fault fails the paths that it breaks, and no others, with what to do next, and nothing stays behind.
func TestConnectivityFinds(t *testing.T) {
	for name, fault := range map[string]struct {
		// breaks is done as soon as the test's Networks and namespaces are there.
		breaks func(context.Context) error
		want   []string
	}{
		// Both Networks belong to the cluster: one entry lets red's pods reach blue's.
		"a Network that lets another one in": {
			func(ctx context.Context) error {
				patch := fmt.Sprintf(`{"spec":{"compatibleWith":[{"network":%q}]}}`, testRed)
				_, err := env.Clients.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks")).
					Patch(ctx, testBlue, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				return err
			},
			[]string{
				"red/near: ClusterIP of the other Network's Service", "red/near: face of the other Network's pod",
				"red/near: name of the other Network's Service",
			},
		},
		"a policy that shuts a pod": {
			func(ctx context.Context) error {
				_, err := env.Clients.Kube.NetworkingV1().NetworkPolicies(testBlue).Create(ctx, &networkingv1.NetworkPolicy{
					ObjectMeta: metav1.ObjectMeta{Name: "fault"},
					Spec: networkingv1.NetworkPolicySpec{
						PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "lonely"}},
						PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
					},
				}, metav1.CreateOptions{})
				return err
			},
			[]string{"blue/server: policy that denies: another Network goes on"},
		},
		"no way to the infrastructure": {
			func(ctx context.Context) error {
				_, err := env.Clients.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks")).
					Patch(ctx, testBlue, types.MergePatchType, []byte(`{"spec":{"infraAccess":"none"}}`), metav1.PatchOptions{})
				return err
			},
			[]string{"blue/server: Kubernetes API"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			broken := make(chan error, 1)
			go func() { broken <- onceThere(t.Context(), fault.breaks) }() // ends with the test's context
			report, status := connectivityTest(t)
			if err := <-broken; err != nil {
				t.Fatal(err)
			}
			got := failures(report)
			slices.Sort(got)
			if status != 1 || !slices.Equal(got, fault.want) {
				t.Errorf("status %d, failed %q, want %q", status, got, fault.want)
			}
			for _, one := range report.Results {
				if one.Verdict == connectivity.Failed {
					t.Logf("%+v", one)
					if !strings.HasPrefix(one.Next, "atoll explain atoll-connectivity-") {
						t.Errorf("%s: next is %q", one.Path, one.Next)
					}
				}
			}
			checkConnectivityGone(t)
		})
	}
}

// TestConnectivityOfPodsThatDoNotStart: that is found, with why, and what they would have answered is not tried.
func TestConnectivityOfPodsThatDoNotStart(t *testing.T) {
	report, status := connectivityTest(t, "--image=atoll.dev/nothing:sandbox", "--timeout=30s")
	for _, one := range report.Results {
		starts := strings.HasPrefix(one.Path, "pod ") && strings.Contains(one.Path, " starts, ")
		want := connectivity.NotTried
		if starts {
			want = connectivity.Failed
		}
		if one.Verdict != want || starts && (!strings.Contains(one.Seen, "Image") || !strings.HasPrefix(one.Next, "atoll pod ")) {
			t.Errorf("%+v, want %s", one, want)
		}
	}
	if n := report.Count(connectivity.Failed); status != 1 || n != 7 {
		t.Errorf("status %d, %d failed", status, n)
	}
	checkConnectivityGone(t)
}

// TestConnectivityWithoutAnAgent: a node whose agent is away takes no pods. That is found; the pods are on the other nodes.
func TestConnectivityWithoutAnAgent(t *testing.T) {
	agents := env.Clients.Kube.AppsV1().DaemonSets(system)
	node := env.Box.Nodes()[1]
	// set keeps agents from the node, or lets them on it again.
	set := func(affinity *corev1.Affinity, ready corev1.ConditionStatus) {
		text, err := json.Marshal(map[string]any{
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"affinity": affinity}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if _, err := agents.Patch(ctx, "atoll-agent", types.MergePatchType, text, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t, 2*time.Minute,
			"the node's readiness is "+string(ready)+", and agents are where they should be", func(ctx context.Context) error {
				now, err := agents.Get(ctx, "atoll-agent", metav1.GetOptions{})
				if err != nil {
					return err
				}
				if s := now.Status; s.ObservedGeneration < now.Generation || s.NumberReady != s.DesiredNumberScheduled ||
					s.UpdatedNumberScheduled != s.DesiredNumberScheduled {
					return fmt.Errorf("agents: %+v", s)
				}
				nodes, err := env.Clients.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
				if err != nil {
					return err
				}
				for _, n := range nodes.Items {
					// The other nodes' agents are replaced as well: where that takes long, a node is not Ready for a moment.
					want := corev1.ConditionTrue
					if n.Name == node {
						want = ready
					}
					for _, c := range n.Status.Conditions {
						if c.Type == corev1.NodeReady && c.Status != want {
							return fmt.Errorf("%s is %s: %s", n.Name, c.Status, c.Message)
						}
					}
					if tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady }); tainted &&
						want == corev1.ConditionTrue {
						return fmt.Errorf("%s still has the taint %s", n.Name, corev1.TaintNodeNotReady)
					}
				}
				return nil
			})
	}
	// Before the end of the test, whose context the waiting has.
	defer set(nil, corev1.ConditionTrue)
	away := corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{node}}
	set(&corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{away}}},
	}}}, corev1.ConditionFalse)
	report, status := connectivityTest(t)
	if got, want := failures(report), []string{"kubelet " + node + ": the node has a network"}; status != 1 || !slices.Equal(got, want) {
		t.Errorf("status %d, failed %q, want %q", status, got, want)
	}
	if slices.Contains(report.Nodes, node) || len(report.Nodes) != 2 {
		t.Errorf("pods were on %v", report.Nodes)
	}
	checkConnectivityGone(t)
}

// onceThere does something as soon as both of the test's Networks and their namespaces are there.
func onceThere(ctx context.Context, do func(context.Context) error) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, redErr := env.Clients.Kube.CoreV1().Namespaces().Get(ctx, testRed, metav1.GetOptions{})
		_, blueErr := env.Clients.Kube.CoreV1().Namespaces().Get(ctx, testBlue, metav1.GetOptions{})
		if redErr == nil && blueErr == nil {
			return do(ctx)
		}
		for _, err := range []error{redErr, blueErr} {
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
