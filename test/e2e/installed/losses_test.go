//go:build e2e

package installed

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// countLosses is set by make losses: the load is what docs/operations.md says, all that the page lists happens, and a table says
// what it took. Without it each part is replaced under a small load.
var countLosses = flag.Bool("losses", false,
	"count what is lost under the whole load while everything happens that docs/operations.md lists")

// asking is one kind of question that a client goes on asking.
type asking struct {
	name    string
	way     wire.LoadBy
	to      netip.AddrPort
	workers int
	pause   time.Duration
}

// clusterNames is where pods of the sandbox ask for names.
var clusterNames = netip.MustParseAddrPort("10.96.0.10:53")

func askings(server netip.Addr) []asking {
	to := netip.AddrPortFrom(server, wire.DefaultPort)
	if !*countLosses {
		return []asking{
			{name: "new", way: wire.LoadTCP, to: to, workers: 2, pause: 5 * time.Millisecond},
			{name: "udp", way: wire.LoadUDP, to: to, workers: 2, pause: 5 * time.Millisecond},
		}
	}
	return []asking{
		{name: "kept", way: wire.LoadHTTP, to: netip.AddrPortFrom(server, wire.HTTPPort), workers: 1000, pause: 5 * time.Second},
		{name: "new", way: wire.LoadTCP, to: to, workers: 5, pause: 100 * time.Millisecond},
		{name: "udp", way: wire.LoadUDP, to: to, workers: 10, pause: 9 * time.Millisecond},
		{name: "names", way: wire.LoadDNS, to: clusterNames, workers: 2, pause: 20 * time.Millisecond},
	}
}

// loss is what came of what was asked.
type loss struct {
	asking
	wire.Load
	failed int
	// broken are kept connections that were made anew.
	broken int
}

func (l loss) String() string {
	words := fmt.Sprintf("%s: %d answers in %.0f s, %d failed, %d late, %d waited for a packet to be sent again, longest %s",
		l.name, l.Answers, l.Seconds, l.failed, l.Late, l.Waited, l.Max.Round(time.Millisecond))
	if l.broken > 0 {
		words += fmt.Sprintf(", connections made anew: %+v", l.Renewed)
	}
	return words
}

// event is what happens while packets flow.
type event struct {
	name string
	// prepare, which may be nil, is called before anything is asked.
	prepare func(*testing.T)
	happens func(*testing.T, scene)
	// judge, which may be nil, looks further at what was lost.
	judge func(*testing.T, []loss)
	// takes says what is lost where something may be; else nothing may.
	takes string
}

// scene is who asks whom: a client on one node, a server on another, and a Service whose pods are on all.
type scene struct {
	client, server *corev1.Pod
	// third is the node of neither.
	third   string
	service netip.Addr
}

// userspace is why the switch's own replacement takes packets here: with the kernel's datapath it must take none
// (pkg/daemons/chassis, TestRestarts).
const userspace = "the userspace datapath stands still with its switch"

// links is why a drained node takes datagrams between other nodes here: its pods come to them (docs/design/networks.md).
const links = "the userspace datapath forgets its routes when a link comes to a node or goes"

func events() []event {
	all := []event{
		{name: "central rolled", happens: rolled("daemonset/atoll-ovn-central")},
		{name: "controller rolled", happens: rolled("deployment/atoll-controller")},
		{name: "agent rolled", happens: rolled("daemonset/atoll-agent")},
		{name: "names rolled", happens: rolled("daemonset/atoll-dns")},
	}
	if *countLosses {
		all = append(all,
			event{name: "nothing", happens: func(*testing.T, scene) { <-time.After(30 * time.Second) }},
			event{name: "northbound members killed", happens: killed("atoll-ovn-central", "nb", everyNode)},
			event{name: "southbound members killed", happens: killed("atoll-ovn-central", "sb", everyNode)},
			event{name: "ovn-northd killed", happens: killed("atoll-ovn-central", "northd", everyNode)},
			event{name: "ovn-controller ended", happens: killed("atoll-ovn-node", "ovn-controller", clientsNode)},
			event{name: "ovsdb-server ended", happens: killed("atoll-ovn-node", "ovsdb-server", clientsNode), takes: userspace},
			event{name: "ovs-vswitchd ended", happens: killed("atoll-ovn-node", "ovs-vswitchd", clientsNode), takes: userspace},
			event{name: "nodes' OVN rolled", happens: rolledSwitches, takes: userspace},
			event{name: "node drained", happens: drained, takes: links},
			event{name: "new authorities", happens: newAuthorities},
			rebuildEvent(),
			upgradeEvent(),
		)
	}
	return all
}

// TestRolled: while the pods of each part are replaced, connections go on: a client asks a pod on another node. Afterwards a new pod
// starts, and is reached. make losses asks more, and lets more happen.
func TestRolled(t *testing.T) {
	list, err := env.Clients.Kube.CoreV1().Pods("red").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(list.Items) < 3 {
		t.Fatalf("%d pods, %v", len(list.Items), err)
	}
	// Three pods, one on each node.
	s := scene{client: &list.Items[0], server: &list.Items[1], third: list.Items[2].Spec.NodeName}
	address, err := netip.ParseAddr(cluster.OwnAddress(t, s.server))
	if err != nil {
		t.Fatal(err)
	}
	asked := askings(address)
	if *countLosses {
		s.service = spread(t)
		asked = append(asked, asking{
			name: "service", way: wire.LoadTCP, to: netip.AddrPortFrom(s.service, 80), workers: 1, pause: 50 * time.Millisecond,
		})
	}
	told := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(told, "what happens\tof\tasked\tlost\tlate\tlongest\tbroken connections")
	for _, e := range events() {
		t.Run(strings.ReplaceAll(e.name, " ", "_"), func(t *testing.T) {
			if e.prepare != nil {
				e.prepare(t)
			}
			before := drops(t, s)
			losses := whileAsking(t, s.client, asked, func() { e.happens(t, s) })
			if e.judge != nil {
				e.judge(t, losses)
			}
			for _, l := range losses {
				t.Logf("%s, %s", e.name, l)
				fmt.Fprintf(told, "%s\t%s\t%d\t%d\t%d\t%s\t%d\n", e.name, l.name, l.Answers+l.failed, l.failed, l.Late+l.Waited,
					l.Max.Round(time.Millisecond), l.broken)
				// What comes late waited for a processor: two nodes' switches are processes of one machine, on which pods start.
				// Of what may be lost, kept connections may not: who asks by them waits.
				if l.Answers < 100 || l.broken > 0 && e.takes == links || e.takes == "" && (l.failed > 0 || l.broken > 0 || l.Late*50 > l.Answers) {
					t.Errorf("%s: %v %+v", l, l.Errors, l.Failures)
				}
			}
			// Why a switch dropped packets: what it says by itself.
			for counter, n := range drops(t, s) {
				if n > before[counter] {
					t.Logf("%s: %s: %d", e.name, counter, n-before[counter])
				}
			}
			started := env.WaitReady(t,
				env.Pod(t,
					cluster.PodSpec{
						Namespace: "red", Name: "after-" + strings.NewReplacer(" ", "-", "'", "").Replace(strings.ToLower(e.name)),
						Node: s.server.Spec.NodeName,
					}))[0]
			env.Reach(t, s.client, started)
			// It is gone before packets are counted again: a link that goes from a node empties the userspace switch's copy of the routes,
			// and what is on its way to another node is dropped meanwhile (docs/design/networks.md), which is no fault of what happens
			// next.
			env.DeletePod(t, started)
			env.WaitGone(t, started)
		})
	}
	if err := told.Flush(); err != nil {
		t.Error(err)
	}
}

// drops are what the switches of client and server say that they dropped, by node and counter of Open vSwitch (ovs-appctl coverage/show).
func drops(t *testing.T, s scene) map[string]int {
	t.Helper()
	counted := map[string]int{}
	pods, err := env.Clients.Kube.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=atoll-ovn-node",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Spec.NodeName != s.client.Spec.NodeName && p.Spec.NodeName != s.server.Spec.NodeName {
			continue
		}
		out, err := kubectl(t.Context(), "exec", "-n", system, p.Name, "-c", "ovs-vswitchd", "--",
			"ovs-appctl", "-t", "/var/run/openvswitch/ovs-vswitchd.ctl", "coverage/show")
		if err != nil {
			t.Logf("what the switch of %s dropped is not known: %v", p.Spec.NodeName, err)
			continue
		}
		for line := range strings.Lines(out) {
			fields := strings.Fields(line)
			if len(fields) < 2 || !strings.Contains(fields[0], "drop") {
				continue
			}
			if n, err := strconv.Atoi(fields[len(fields)-1]); err == nil {
				counted[p.Spec.NodeName+" "+fields[0]] = n
			}
		}
	}
	return counted
}

// whileAsking has a pod ask while something happens.
func whileAsking(t *testing.T, client *corev1.Pod, asked []asking, happens func()) []loss {
	t.Helper()
	losses := make([]loss, len(asked))
	var running sync.WaitGroup
	attended, leave := context.WithCancel(t.Context())
	defer leave()
	for i, a := range asked {
		stdin, end := io.Pipe()
		context.AfterFunc(attended, func() { end.Close() })
		running.Go(func() {
			l := loss{asking: a}
			out, err := env.Exec(t.Context(), client.Namespace, client.Name, stdin, matrix.Program,
				"load", "-by="+string(a.way), fmt.Sprintf("-workers=%d", a.workers),
				"-pause="+a.pause.String(), "-until-eof", "-for=15m", "-at="+a.to.String())
			if err == nil {
				err = json.Unmarshal(out, &l.Load)
			}
			if err != nil {
				t.Error(err)
			}
			for _, n := range l.Errors {
				l.failed += n
			}
			l.broken = len(l.Renewed)
			losses[i] = l
		})
	}
	if *countLosses {
		// By then each connection that is kept is made.
		<-time.After(8 * time.Second)
	}
	happens()
	if *countLosses {
		// What it begins shows a moment later; and each kept connection is asked at least once.
		<-time.After(10 * time.Second)
	}
	leave()
	running.Wait()
	return losses
}

// rolled replaces the pods of a workload as an upgrade does.
func rolled(workload string) func(*testing.T, scene) {
	return func(t *testing.T, _ scene) {
		t.Helper()
		for _, words := range [][]string{{"restart"}, {"status", "--timeout=4m"}} {
			if out, err := kubectl(t.Context(), append([]string{"rollout", words[0], "-n", system, workload}, words[1:]...)...); err != nil {
				t.Fatalf("roll %s: %v\n%s", workload, err, out)
			}
		}
	}
}

// rolledSwitches replaces nodes' OVN.
func rolledSwitches(t *testing.T, s scene) {
	t.Helper()
	rolled("daemonset/atoll-ovn-node")(t, s)
	haveTheirFlows(t)
}

// haveTheirFlows sees that each switch, which was just replaced, had its flows from the last one: that was not killed, and
// nothing kept the new one from them.
func haveTheirFlows(t *testing.T) {
	t.Helper()
	list, err := env.Clients.Kube.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=atoll-ovn-node",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		const words = "flows are restored"
		if out, err := kubectl(t.Context(), "logs", "-n", system, p.Name, "-c", "ovs-vswitchd"); err != nil || !strings.Contains(out, words) {
			t.Errorf("the switch of %s does not say that %s: %v\n%s", p.Spec.NodeName, words, err, out)
		}
	}
}

// awaitReady waits until as many pods as there were are ready, and each is as it should be.
func awaitReady(t *testing.T, selector string, count int, is func(*corev1.Pod) bool) {
	t.Helper()
	cluster.Eventually(t, cluster.ReadyWithin, selector+" is back", func(ctx context.Context) error {
		now, err := env.Clients.Kube.CoreV1().Pods(system).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		if len(now.Items) != count || slices.ContainsFunc(now.Items, func(p corev1.Pod) bool { return !is(&p) || !cluster.IsReady(&p) }) {
			return fmt.Errorf("%d pods, not all are ready", len(now.Items))
		}
		return nil
	})
}

// Where a container is ended.
func everyNode(string, scene) bool          { return true }
func clientsNode(node string, s scene) bool { return node == s.client.Spec.NodeName }

// killed ends the first process of a container on one node after another, in the way that a kubelet does for members of central
// when they are stopped; they are back before the next.
func killed(name, container string, on func(string, scene) bool) func(*testing.T, scene) {
	return func(t *testing.T, s scene) {
		t.Helper()
		selector, signal := "app.kubernetes.io/name="+name, "SIGTERM"
		if name == "atoll-ovn-central" {
			signal = "SIGKILL"
		}
		list, err := env.Clients.Kube.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err != nil || len(list.Items) == 0 {
			t.Fatalf("find pods of %s: %d, %v", selector, len(list.Items), err)
		}
		for _, p := range list.Items {
			if !on(p.Spec.NodeName, s) {
				continue
			}
			id := cluster.ContainerOf(&p, container)
			if out, err := env.Box.Exec(t.Context(), p.Spec.NodeName, "ctr", "--namespace", "k8s.io", "task", "kill", "--signal", signal,
				id); err != nil {
				t.Fatalf("end %s on %s: %v\n%s", container, p.Spec.NodeName, err, out)
			}
			awaitReady(t, selector, len(list.Items),
				func(now *corev1.Pod) bool { return now.UID != p.UID || cluster.ContainerOf(now, container) != id })
		}
	}
}

// spread makes three pods of one Service, one on each node, which end slowly enough that nobody is led to one that is gone.
func spread(t *testing.T) netip.Addr {
	t.Helper()
	const ns, name = "red", "spread"
	service := env.Service(t, ns, name, corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(wire.DefaultPort)}},
	})
	template := cluster.PodSpec{Namespace: ns, Name: name, App: name}.Object()
	template.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 4}}}
	grace, replicas := int64(10), int32(3)
	template.Spec.TerminationGracePeriodSeconds = &grace
	template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		TopologyKey: corev1.LabelHostname, MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: template.Labels},
	}}
	deployments := env.Clients.Kube.AppsV1().Deployments(ns)
	_, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if err := deployments.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	cluster.Eventually(t, cluster.ReadyWithin, name+" is ready", func(ctx context.Context) error {
		now, err := deployments.Get(ctx, name, metav1.GetOptions{})
		if err == nil && now.Status.ReadyReplicas < replicas {
			err = fmt.Errorf("%d pods are ready", now.Status.ReadyReplicas)
		}
		return err
	})
	return netip.MustParseAddr(service.Spec.ClusterIP)
}

// drained empties the third node as an operator does, and gives it back.
func drained(t *testing.T, s scene) {
	t.Helper()
	if out, err := kubectl(t.Context(), "drain", s.third, "--ignore-daemonsets", "--delete-emptydir-data", "--force",
		"--timeout=3m"); err != nil {
		t.Errorf("drain %s: %v\n%s", s.third, err, out)
	}
	if out, err := kubectl(t.Context(), "uncordon", s.third); err != nil {
		t.Errorf("uncordon %s: %v\n%s", s.third, err, out)
	}
	if out, err := kubectl(t.Context(), "rollout", "status", "-n", "red", "statefulset/web", "--timeout=3m"); err != nil {
		t.Errorf("wait for what was on %s: %v\n%s", s.third, err, out)
	}
}

// newAuthorities takes both authorities' keys away, as after a theft: the controller makes new ones, and every process asks for a
// certificate of theirs at once.
func newAuthorities(t *testing.T, _ scene) {
	t.Helper()
	began := time.Now().Truncate(time.Second)
	for _, name := range []string{"atoll-ca-node", "atoll-ca-central"} {
		if err := env.Clients.Kube.CoreV1().Secrets(system).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	nodes, err := env.Clients.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A node's, and one of each database's member.
	want := 3 * len(nodes.Items)
	cluster.Eventually(t, cluster.ReadyWithin, "every process has a certificate of the new authorities", func(ctx context.Context) error {
		requests, err := env.Clients.Kube.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		issued := 0
		for _, r := range requests.Items {
			if strings.HasPrefix(r.Spec.SignerName, "atoll.dev/") && !r.CreationTimestamp.Time.Before(began) && len(r.Status.Certificate) > 0 {
				issued++
			}
		}
		if issued < want {
			return fmt.Errorf("%d of %d are issued", issued, want)
		}
		return nil
	})
	var errs []error
	for _, daemonset := range []string{"atoll-ovn-central", "atoll-ovn-node"} {
		out, err := kubectl(t.Context(), "rollout", "status", "-n", system, "daemonset/"+daemonset, "--timeout=3m")
		if err != nil {
			errs = append(errs, fmt.Errorf("%w\n%s", err, out))
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
