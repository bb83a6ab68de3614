//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/sandbox"
)

// toldWithin is how long it may take until kubectl shows what a new pod waits for, from when the pod is made.
const toldWithin = 10 * time.Second

// fault is a way to be broken, and what kubectl alone shows of it: a row of the table in docs/troubleshooting/events.md.
type fault struct {
	// what is broken, as the table names it.
	what string
	// stop is the daemon that is away.
	stop cluster.Daemon
	// reasons: the pod's Events have one of these, and its message has says.
	reasons []string
	says    string
	// phase and reason are those of every Network meanwhile; empty where they stay as they are.
	phase  v1alpha1.NetworkPhase
	reason string
	// network is the reason of the Event on every Network; empty where there is none.
	network string
}

// deadNode is the node whose daemons are stopped.
const deadNode = "n2"

func faults() []fault {
	central := func(name string) cluster.Daemon { return cluster.Daemon{Place: sandbox.Central, Name: name} }
	node := func(name string) cluster.Daemon { return cluster.Daemon{Place: deadNode, Name: name} }
	return []fault{
		{
			what: "no controller leads", stop: central("atoll-controller"), reasons: []string{model.ReasonControllerAway},
			says: "no atoll-controller leads", network: model.ReasonControllerAway,
		},
		{
			what: "the northbound database is away", stop: central("ovn-nb"), reasons: []string{model.ReasonDatabaseUnreachable},
			says:  "northbound database",
			phase: v1alpha1.NetworkUnknown, reason: model.ReasonDatabaseUnreachable,
		},
		{what: "ovn-northd is away", stop: central("ovn-northd"), reasons: []string{model.ReasonNorthdBehind}, says: "ovn-northd"},
		{
			what: "the southbound database is away", stop: central("ovn-sb"), reasons: []string{model.ReasonSouthboundUnreachable},
			says: "southbound database",
		},
		{
			what: "ovn-controller of the node is away", stop: node("ovn-controller"), reasons: []string{model.ReasonOVNControllerBehind},
			says: "ovn-controller of node " + deadNode,
		},
		{
			what: "ovs-vswitchd of the node is away", stop: node("ovs-vswitchd"),
			reasons: []string{model.ReasonSwitchAway, "FailedCreatePodSandBox"}, says: "vswitch",
		},
		{
			what: "ovsdb-server of the node is away", stop: node("ovsdb-server"),
			reasons: []string{model.ReasonSwitchAway, "FailedCreatePodSandBox", "NetworkNotReady"}, says: "vSwitch",
		},
		{
			what: "the agent of the node is away", stop: node("atoll-agent"), reasons: []string{"FailedCreatePodSandBox", "NetworkNotReady"},
			says: "atoll-agent of this node does not answer",
		},
	}
}

// awaitTakesPods waits until a node has no taint.
func awaitTakesPods(t *testing.T, name string) {
	t.Helper()
	cluster.Eventually(t, cluster.ReadyWithin, name+" takes pods", func(ctx context.Context) error {
		node, err := env.Clients.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(node.Spec.Taints) > 0 {
			err = fmt.Errorf("it has the taints %v", node.Spec.Taints)
		}
		return err
	})
}

// TestWhatKubectlShows breaks what stands between a pod and its network, one thing after the other. Within ten seconds kubectl alone
// shows what it is, on the pod that waits and on the Networks; and the pod gets its network when it is mended.
func TestWhatKubectlShows(t *testing.T) {
	env.Network(t, "waiting", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, "waiting", "waiting")
	env.WaitPhase(t, "waiting", v1alpha1.NetworkReady)
	page, err := os.ReadFile(filepath.Join(env.Root, "docs/troubleshooting/events.md"))
	if err != nil {
		t.Fatal(err)
	}
	// Another test may just have ended this node's agent, of which its kubelet, which asks now and then, still tells.
	env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: "waiting", Name: "before", Node: deadNode}))
	for i, f := range faults() {
		t.Run(strings.ReplaceAll(f.what, " ", "-"), func(t *testing.T) {
			checkRow(t, string(page), f)
			// What the fault before did to the node is over: a pod that is given no node waits for that.
			awaitTakesPods(t, deadNode)
			start := env.Stop(t, f.stop)
			began := time.Now()
			p := env.Pod(t, cluster.PodSpec{Namespace: "waiting", Name: fmt.Sprintf("p%d", i), Node: deadNode})
			told := ""
			cluster.Eventually(t, toldWithin, "an Event that names it, and the Network says so", func(ctx context.Context) (err error) {
				if told == "" {
					if told, err = toldWhy(ctx, p, f); err != nil {
						return err
					}
					t.Logf("after %v: %s", time.Since(began).Round(100*time.Millisecond), told)
				}
				if f.phase != "" {
					err = saysOf(ctx, f)
				}
				if err == nil && f.network != "" {
					err = env.ShowsNetworkEvent(ctx, "waiting", f.network)
				}
				return err
			})
			start()
			env.WaitReady(t, p)
			env.WaitPhase(t, "waiting", v1alpha1.NetworkReady)
			env.DeletePod(t, p)
		})
	}
	env.checkNodes(t)
}

// checkRow compares a fault with its row of the table.
func checkRow(t *testing.T, page string, f fault) {
	t.Helper()
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "| "+f.what+" |") {
			for _, want := range append(slices.Clone(f.reasons), f.reason, f.network) {
				if want != "" && !strings.Contains(line, "`"+want+"`") {
					t.Errorf("docs/troubleshooting/events.md does not say %s of: %s", want, line)
				}
			}
			return
		}
	}
	t.Errorf("docs/troubleshooting/events.md has no row %q", f.what)
}

// toldWhy looks for the Event on a pod that names a fault.
func toldWhy(ctx context.Context, p *corev1.Pod, f fault) (string, error) {
	events, err := env.Clients.Kube.CoreV1().Events(p.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + string(p.UID),
	})
	if err != nil {
		return "", err
	}
	var others []string
	for _, e := range events.Items {
		if slices.Contains(f.reasons, e.Reason) && strings.Contains(strings.ToLower(e.Message), strings.ToLower(f.says)) {
			return e.Reason + ": " + e.Message, nil
		}
		others = append(others, e.Reason+": "+e.Message)
	}
	return "", errors.New("only " + strings.Join(others, "; "))
}

// saysOf checks that the Network shows a fault.
func saysOf(ctx context.Context, f fault) error {
	n, err := env.Clients.Network(ctx, "waiting")
	if err != nil {
		return err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == model.ConditionReady && n.Status.Phase == f.phase && c.Status == metav1.ConditionUnknown && c.Reason == f.reason {
			return nil
		}
	}
	return fmt.Errorf("phase %s, %+v", n.Status.Phase, n.Status.Conditions)
}

// TestASubnetInUseStays: a subnet that is taken out of a Network while a pod has an address of it is served on; the Network says
// which pod, and goes without it when the pod has gone.
func TestASubnetInUseStays(t *testing.T) {
	for name, spec := range map[string]v1alpha1.NetworkSpec{
		"shrinking": {Subnets: []v1alpha1.Subnet{cluster.Subnet("back", "10.0.1.0/24"), cluster.Subnet("front", "10.0.0.0/24")}},
		"shrinking-flat": {
			Type: v1alpha1.NetworkFlat, Subnets: []v1alpha1.Subnet{
				cluster.Subnet("back", "10.246.1.0/24"), cluster.Subnet("front", "10.246.0.0/24"),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Network(t, name, spec)
			env.Namespace(t, name, name)
			// Pods of a flat Network get the first subnet's.
			old := env.Pod(t, cluster.PodSpec{Namespace: name, Name: "old"})
			env.WaitReady(t, old)
			env.ChangeNetwork(t, name, func(s *v1alpha1.NetworkSpec) { s.Subnets = s.Subnets[1:] })
			message := env.WaitCondition(t, name, model.ConditionSubnetsValid, metav1.ConditionFalse, model.ReasonSubnetInUse)
			if !strings.Contains(message, name+"/old") {
				t.Errorf("the condition does not name the pod: %s", message)
			}
			env.WaitPhase(t, name, v1alpha1.NetworkDegraded)
			other := env.Pod(t, cluster.PodSpec{Namespace: name, Name: "other"})
			now := env.WaitReady(t, old, other)
			env.Reach(t, now[1], now[0])
			env.DeletePod(t, old)
			env.WaitCondition(t, name, model.ConditionSubnetsValid, metav1.ConditionTrue, "")
			env.WaitPhase(t, name, v1alpha1.NetworkReady)
		})
	}
}

// TestAPodWithoutRoomHoldsNothing: a pod whose annotations leave no room for its addresses has no port, and `atoll check` does not
// take that for a difference; it gets its network when there is room.
func TestAPodWithoutRoomHoldsNothing(t *testing.T) {
	t.Parallel()
	env.Network(t, "crowded", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, "crowded", "crowded")
	p := env.Pod(t, cluster.PodSpec{Namespace: "crowded", Name: "big", Annotations: map[string]string{"big": strings.Repeat("x", 262000)}})
	if message := env.WaitEvent(t, p, model.ReasonAnnotationRefused); !strings.Contains(message, "Remove or shorten") {
		t.Errorf("the Event says %s", message)
	}
	if port := env.NB.Port(t, "crowded/big"); port != nil {
		t.Errorf("it has a port: %+v", port)
	}
	cluster.Eventually(t, cluster.Patience, "nothing to find for atoll check", env.CheckDatabases)
	env.Kubectl(t, "annotate", "-n", "crowded", "pod", "big", "big-")
	env.WaitReady(t, p)
}

// TestAPodThatMayNotBeWrittenHoldsNothing: a policy of somebody else's keeps the controller from writing a pod's addresses on it.
// The pod is told, and has no port and no address, which others get; it gets its network when it may.
func TestAPodThatMayNotBeWrittenHoldsNothing(t *testing.T) {
	t.Parallel()
	env.Network(t, "forbidden", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, "forbidden", "forbidden")
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		for _, kind := range []string{"validatingadmissionpolicy", "validatingadmissionpolicybinding"} {
			if out, err := env.Program(ctx, "kubectl", "delete", kind, "forbids").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		}
	})
	env.Apply(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: forbids}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: forbidden}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods/status]}]
  validations:
    - expression: "request.userInfo.username != 'system:serviceaccount:atoll-system:atoll-controller' || object.metadata.?labels[?'open'].hasValue()"
      reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: forbids}
spec: {policyName: forbids, validationActions: [Deny]}
`)
	// The API server learns of it some time later.
	probe := env.Pod(t, cluster.PodSpec{Namespace: "forbidden", Name: "probe"})
	cluster.Eventually(t, cluster.Patience, "the policy is enforced", func(ctx context.Context) error {
		if err := writeAsController(ctx, t, "forbidden", "probe"); err == nil || !strings.Contains(err.Error(), "'forbids'") {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	env.DeletePod(t, probe)
	p := env.Pod(t, cluster.PodSpec{Namespace: "forbidden", Name: "shut"})
	if message := env.WaitEvent(t, p, model.ReasonAnnotationRefused); !strings.Contains(message, "A rule of the cluster forbids it") {
		t.Errorf("the Event says %s", message)
	}
	cluster.Eventually(t, cluster.Patience, "it holds nothing", func(ctx context.Context) error {
		n, err := env.Clients.Network(ctx, "forbidden")
		if err != nil {
			return err
		}
		if port := env.NB.Port(t, "forbidden/shut"); port != nil || n.Status.Pods != 0 {
			return fmt.Errorf("port %+v, and the Network counts %d pods", port, n.Status.Pods)
		}
		return nil
	})
	env.Kubectl(t, "label", "-n", "forbidden", "pod", "shut", "open=yes")
	env.WaitReady(t, p)
}
