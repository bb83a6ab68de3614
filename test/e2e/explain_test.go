//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/sandbox"
)

// awayWithin is how long it may take until Kubernetes says that a node is away, and explain with it.
const awayWithin = 3 * time.Minute

// broken is a set-up that does not work: atoll explain alone says why, of which object, and what to do; before, and after it is
// mended, that it works.
type broken struct {
	what string
	// ask is the question. says: the verdict has all of them; the objects are named by kind and name.
	ask  []string
	says []string
	// fresh: what is asked about is made when it is broken already; there is nothing to ask before.
	fresh bool
	// database: nobody serves the API meanwhile, and the databases are read.
	database bool
	within   time.Duration
	// brk breaks it, and returns what mends it.
	brk func(*testing.T) (mend func())
}

// explain is what is said, and whether the packet arrives; an error is that nobody can say.
func (c *suite) explain(ctx context.Context, database bool, ask ...string) (reached bool, verdict string, err error) {
	args := append([]string{"explain", "-o", "json"}, ask...)
	explain := c.atoll
	if database {
		explain = c.AtollByDatabases
	}
	out, err := explain(ctx, c.Box.Kubeconfig(), args...)
	var said struct {
		Reached bool             `json:"reached"`
		Verdict string           `json:"verdict"`
		Drift   []map[string]any `json:"drift"`
	}
	if decoded := json.NewDecoder(strings.NewReader(out)).Decode(&said); decoded != nil {
		return false, "", fmt.Errorf("%v: %w: %s", ask, err, out)
	}
	// The exit status says the same.
	if (err == nil) != said.Reached {
		return false, "", fmt.Errorf("%v: reached is %t, and it ends with %w", ask, said.Reached, err)
	}
	drift, _ := json.Marshal(said.Drift)
	if len(said.Drift) > 0 {
		said.Verdict += " DRIFT " + string(drift)
	}
	return said.Reached, said.Verdict, nil
}

// explainNetworks are six, of which four have the same addresses; pods of the second reach those of the first.
func explainNetworks(t *testing.T) []*corev1.Pod {
	t.Helper()
	env.Apply(t,
		"{apiVersion: atoll.dev/v1alpha1, kind: Tenant, metadata: {name: ex-acme}, spec: {}}\n---\n{apiVersion: atoll.dev/v1alpha1, kind: "+
			"Tenant, metadata: {name: ex-other}, spec: {}}\n")
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if out, err := env.Box.Exec(ctx, sandbox.Central, "kubectl", "--kubeconfig="+env.Box.Kubeconfig(), "delete",
			"tenant", "ex-acme", "ex-other", "--wait=false"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	var pods []*corev1.Pod
	for i, name := range []string{"ex-a", "ex-b", "ex-c", "ex-d", "ex-e", "ex-f"} {
		spec := v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}}
		switch name {
		case "ex-a":
			spec.CompatibleWith = []v1alpha1.CompatiblePeer{{Network: "ex-b"}}
		case "ex-c":
			spec.Subnets = append(spec.Subnets, cluster.Subnet("tiny", "10.0.9.0/29"))
		case "ex-d":
			spec.Tenant = "ex-acme"
		case "ex-e", "ex-f":
			spec.Subnets = []v1alpha1.Subnet{cluster.Subnet("a", fmt.Sprintf("10.%d.0.0/24", 40+i))}
		}
		env.Network(t, name, spec)
		env.Namespace(t, name, name)
		if name == "ex-d" {
			labelNamespace(t, name, map[string]string{model.LabelTenant: "ex-acme"})
		}
		for n := range 5 {
			pods = append(pods,
				env.Pod(t, cluster.PodSpec{
					Namespace: name, Name: fmt.Sprintf("p%d", n), Node: fmt.Sprintf("n%d", n%3+1), App: fmt.Sprintf("app%d", n),
				}))
		}
	}
	env.Service(t, "ex-a", "app1", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)}}})
	return env.WaitReady(t, pods...)
}

func labelNamespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	patchLabels(t, func(ctx context.Context, patch []byte) error {
		_, err := env.Clients.Kube.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}, labels)
}

func labelPod(t *testing.T, namespace, name, app string) {
	t.Helper()
	patchLabels(t, func(ctx context.Context, patch []byte) error {
		_, err := env.Clients.Kube.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}, map[string]string{"app": app})
}

func patchLabels(t *testing.T, patch func(context.Context, []byte) error, labels map[string]string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := cluster.AfterTest()
	defer cancel()
	if err := patch(ctx, text); err != nil {
		t.Fatal(err)
	}
}

// policyFor lets pods with a label app reach one of ex-a, and nobody else; deleting it is what mends.
func policyFor(t *testing.T, name, subject, allowed string) func() {
	t.Helper()
	policies := env.Clients.Kube.NetworkingV1().NetworkPolicies("ex-a")
	_, err := policies.Create(t.Context(), &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": subject}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": allowed}}}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := policies.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func dialling(from, to string) []string {
	return []string{from, to, fmt.Sprintf("--port=%d", wire.DefaultPort)}
}

func brokenSetups() []broken {
	setNetwork := func(name string, change, back func(*v1alpha1.NetworkSpec)) func(*testing.T) func() {
		return func(t *testing.T) func() {
			env.ChangeNetwork(t, name, change)
			return func() { env.ChangeNetwork(t, name, back) }
		}
	}
	return []broken{
		{
			what: "wrong policy", ask: dialling("ex-a/p0", "ex-a/p1"), says: []string{
				"by policy", "pod ex-a/p1", "isolated by NetworkPolicy/ex-a/wrong", "kubectl describe networkpolicy -n ex-a wrong",
			},
			brk: func(t *testing.T) func() { return policyFor(t, "wrong", "app1", "app4") },
		},
		{
			what: "missing label", ask: dialling("ex-a/p0", "ex-a/p2"), says: []string{
				"isolated by NetworkPolicy/ex-a/labels", "would allow it if pod ex-a/p0 had the label app=app0",
			},
			brk: func(t *testing.T) func() {
				deletePolicy := policyFor(t, "labels", "app2", "app0")
				awaitExplained(t, true, cluster.Patience, false, dialling("ex-a/p0", "ex-a/p2"))
				labelPod(t, "ex-a", "p0", "forgotten")
				return func() {
					labelPod(t, "ex-a", "p0", "app0")
					awaitExplained(t, true, cluster.Patience, false, dialling("ex-a/p0", "ex-a/p2"))
					deletePolicy()
				}
			},
		},
		{
			what: "full subnet", ask: dialling("ex-c/p0",
				"ex-c/last"),
			says:  []string{"by pod", "pod ex-c/last has no port in OVN", "SubnetFull", `subnet`, "tiny", "kubectl describe pod -n ex-c last"},
			fresh: true,
			brk: func(t *testing.T) func() {
				var full []*corev1.Pod
				const nics = `[{"subnet":"tiny"}]`
				for i := range 5 {
					full = append(full, env.Pod(t, cluster.PodSpec{Namespace: "ex-c", Name: fmt.Sprintf("full%d", i), NICs: nics}))
				}
				env.WaitReady(t, full...)
				env.Pod(t, cluster.PodSpec{Namespace: "ex-c", Name: "last", NICs: nics})
				return func() { env.DeletePod(t, full[0]) }
			},
		},
		{
			what: "stopped agent", ask: dialling("ex-a/p0", "ex-a/late"), says: []string{"pod ex-a/late", "node n2", "atoll-agent"}, fresh: true,
			brk: func(t *testing.T) func() {
				d := cluster.Daemon{Place: "n2", Name: "atoll-agent"}
				start := env.Stop(t, d)
				env.Pod(t, cluster.PodSpec{Namespace: "ex-a", Name: "late", Node: "n2", App: "late"})
				return start
			},
		},
		{
			what: "deleted row", ask: dialling("ex-a/p0",
				"ex-a/p3"),
			says: []string{
				"pod ex-a/p3 has no port in OVN", "and it should: the objects ask for it", "Logical_Switch_Port ex-a/p3", "does a controller lead",
			}, database: true,
			brk: func(t *testing.T) func() {
				lead := env.Stop(t, cluster.Daemon{Place: sandbox.Central, Name: "atoll-controller"})
				answer := env.Stop(t, cluster.Daemon{Place: sandbox.Central, Name: "atoll-inspect"})
				env.NBCtl(t, "lsp-del", "ex-a/p3")
				// Who has the kubeconfig alone, is told that, and what Kubernetes knows.
				_, err := env.atoll(t.Context(), env.Box.Kubeconfig(), append([]string{"explain"}, dialling("ex-a/p0", "ex-a/p3")...)...)
				if err == nil || !strings.Contains(err.Error(), "does not answer") || !strings.Contains(err.Error(), "ex-a/p3: ") {
					t.Errorf("without the API: %v", err)
				}
				// Inspection has its certificates from a controller.
				return func() { lead(); answer() }
			},
		},
		{
			what: "wrong tenant", ask: dialling("ex-d/p0",
				"ex-stray/lost"), says: []string{"pod ex-stray/lost", `Network "ex-d"`, "kubectl describe pod -n ex-stray lost"}, fresh: true,
			brk: func(t *testing.T) func() {
				env.Namespace(t, "ex-stray", "ex-d")
				labelNamespace(t, "ex-stray", map[string]string{model.LabelTenant: "ex-other"})
				env.Pod(t, cluster.PodSpec{Namespace: "ex-stray", Name: "lost"})
				return func() { labelNamespace(t, "ex-stray", map[string]string{model.LabelTenant: "ex-acme"}) }
			},
		},
		{
			what: "no endpoints", ask: []string{"ex-a/p0", "svc/ex-a/app1", "--port=80"}, says: []string{
				"by load balancer", "Service/ex-a/app1 has no endpoint", "kubectl get endpointslices -n ex-a -l kubernetes.io/service-name=app1",
			},
			brk: func(t *testing.T) func() {
				labelPod(t, "ex-a", "p1", "renamed")
				return func() { labelPod(t, "ex-a", "p1", "app1") }
			},
		},
		{
			what: "DNS off", ask: []string{"ex-b/p0", "app1.ex-a.svc", "--port=80"}, says: []string{
				"app1.ex-a.svc", "Network ex-b has dns.mode none", "spec.dns.mode: node of Network ex-b",
			},
			brk: setNetwork("ex-b", func(s *v1alpha1.NetworkSpec) { s.DNS = &v1alpha1.NetworkDNS{Mode: v1alpha1.DNSNone} },
				func(s *v1alpha1.NetworkSpec) { s.DNS = nil }),
		},
		{
			what: "conflicting prefixes", ask: dialling("ex-b/p0",
				"ex-a/p0"), says: []string{"by compatibility", "Network ex-b", "10.0.0.0/24", "kubectl get network ex-"},
			brk: setNetwork("ex-a", func(s *v1alpha1.NetworkSpec) { s.CompatibleWith[0].Mode = v1alpha1.CompatibilityRouted },
				func(s *v1alpha1.NetworkSpec) { s.CompatibleWith[0].Mode = v1alpha1.CompatibilityByFace }),
		},
		{
			what: "node down", ask: dialling("ex-a/p0",
				"ex-a/p4"), says: []string{"by node", "node n2, where pod ex-a/p4 is, is away", "kubectl describe node n2"}, within: awayWithin,
			brk: func(t *testing.T) func() {
				var starts []func()
				for _, name := range []string{"kubelet", "ovs-vswitchd"} {
					starts = append(starts, env.Stop(t, cluster.Daemon{Place: "n2", Name: name}))
				}
				return func() {
					for _, start := range starts {
						start()
					}
					// Whatever else runs there is Ready again, too: other tests begin with that.
					awaitTakesPods(t, "n2")
					list, err := env.Clients.Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n2"})
					if err != nil {
						t.Fatal(err)
					}
					for i := range list.Items {
						if p := &list.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
							env.WaitReady(t, p)
						}
					}
				}
			},
		},
	}
}

// awaitExplained waits until explain says that a packet arrives, or is stopped, and has all the words.
func awaitExplained(t *testing.T, reached bool, within time.Duration, database bool, ask []string, says ...string) {
	t.Helper()
	last := ""
	cluster.Eventually(t, within,
		fmt.Sprintf("atoll explain %s: reached %t", strings.Join(ask, " "), reached), func(ctx context.Context) error {
			have, verdict, err := env.explain(ctx, database, ask...)
			if err != nil {
				return err
			}
			if last = verdict; have != reached {
				return fmt.Errorf("it says %s", verdict)
			}
			for _, want := range says {
				if !strings.Contains(verdict, want) {
					return fmt.Errorf("it says %s, without %q", verdict, want)
				}
			}
			return nil
		})
	t.Log(last)
}

// TestExplainNamesWhatIsBroken breaks ten set-ups in a cluster of thirty pods in six Networks. atoll explain alone names what is
// wrong, the object by its kind and name, and what to do, by its exit status too; and says that it works, before and after. So
// does the page of atoll ui.
func TestExplainNamesWhatIsBroken(t *testing.T) {
	pods := explainNetworks(t)
	if len(pods) != 30 {
		t.Fatalf("there are %d pods", len(pods))
	}
	byAPI, byDatabase := env.startPage(t), env.openPage(t, env.ByDatabases(context.WithoutCancel(t.Context()), env.Box.Kubeconfig(), "ui"))
	for _, b := range brokenSetups() {
		t.Run(strings.ReplaceAll(b.what, " ", "-"), func(t *testing.T) {
			within := max(b.within, cluster.ReadyWithin)
			if !b.fresh {
				awaitExplained(t, true, within, false, b.ask)
			}
			mend := b.brk(t)
			awaitExplained(t, false, within, b.database, b.ask, append(b.says, "Next: ")...)
			if b.database {
				byDatabase.awaitSays(t, b.ask, append(b.says, "Stopped: ", "Next: ")...)
				// The page that asks the API says that nobody answers there, and what Kubernetes knows.
				byAPI.awaitSays(t, b.ask, "does not answer", b.ask[1]+": ")
			} else {
				byAPI.awaitSays(t, b.ask, append(b.says, "Stopped: ", "Next: ")...)
			}
			mend()
			awaitExplained(t, true, within, false, b.ask)
			byAPI.awaitSays(t, b.ask, "Reached: ")
		})
	}
}
