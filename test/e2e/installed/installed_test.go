//go:build e2e

package installed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/reach"
)

// TestTwoNetworks: what the demo shows holds on an installed cluster, too: who reaches whom, and what pods reach besides.
func TestTwoNetworks(t *testing.T) {
	cluster.Eventually(t, 2*time.Minute, "the matrix and the answers are as expected", func(ctx context.Context) error {
		pods, err := matrix.List(ctx, env.Clients.Kube, selector)
		if err != nil {
			return err
		}
		m, err := matrix.Run(ctx, env.Exec, pods)
		if err != nil {
			return err
		}
		if v := m.Verdict(); !v.OK() {
			return errors.Join(errors.New(v.String()), m.Print(os.Stdout))
		}
		answers, err := reach.Ask(ctx, env.Exec, env.Clients.Kube, reach.Example(), reach.SandboxOutside())
		if err != nil {
			return err
		}
		if n := reach.Failures(answers); n > 0 {
			return fmt.Errorf("%d of %d answers are not as expected: %+v", n, len(answers), answers)
		}
		t.Logf("%s; %d answers as expected", m.Verdict(), len(answers))
		return nil
	})
}

// TestWhatIsOpen: nothing of OVN listens without TLS, and the databases' files and keys are root's.
func TestWhatIsOpen(t *testing.T) {
	for _, node := range env.Box.Nodes() {
		out, err := env.Box.Exec(t.Context(), node, "ss", "-Hltn")
		if err != nil {
			t.Fatal(err)
		}
		ports := map[string]bool{}
		for line := range strings.Lines(string(out)) {
			if fields := strings.Fields(line); len(fields) > 3 {
				ports[fields[3][strings.LastIndex(fields[3], ":")+1:]] = true
			}
		}
		for _, port := range []string{"6641", "6642", "6643", "6644", "16642"} {
			if !ports[port] {
				t.Errorf("%s does not listen at %s: %s", node, port, out)
				continue
			}
			// A line of JSON-RPC without TLS has no answer.
			plain, err := env.Box.Exec(t.Context(), node, "bash", "-c",
				fmt.Sprintf(`exec 3<>/dev/tcp/%s/%s; printf '{"method":"list_dbs","params":[],"id":0}' >&3; timeout 2 head -c 20 <&3 | grep -c result || true`, env.NodeAddresses(t, node)[0], port))
			if err != nil || strings.TrimSpace(string(plain)) != "0" {
				t.Errorf("%s answers at %s without TLS: %s, %v", node, port, plain, err)
			}
		}
	}
}

// part is what a test takes away while packets flow.
type part struct{ name, selector string }

// TestRolled: while each part but the node's switch is replaced, one pod after another, connections go on: a client asks a pod on another
// node, by TCP and UDP. Afterwards a new pod starts, and is reached. (What a switch's replacement costs: pkg/chassis, TestRestarts.)
func TestRolled(t *testing.T) {
	list, err := env.Clients.Kube.CoreV1().Pods("red").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(list.Items) < 3 {
		t.Fatalf("%d pods, %v", len(list.Items), err)
	}
	client, far := &list.Items[0], &list.Items[1]
	if client.Spec.NodeName == far.Spec.NodeName {
		far = &list.Items[2]
	}
	address, err := netip.ParseAddr(cluster.OwnAddress(t, far))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []part{
		{"central", "app.kubernetes.io/name=atoll-ovn-central"},
		{"controller", "app.kubernetes.io/name=atoll-controller"},
		{"agent", "app.kubernetes.io/name=atoll-agent"},
		{"names", "app.kubernetes.io/name=atoll-dns"},
	} {
		t.Run(p.name, func(t *testing.T) {
			loads := whileAsking(t, client, address, func() { replaceAll(t, p) })
			for by, load := range loads {
				lost := 0
				for _, n := range load.Errors {
					lost += n
				}
				t.Logf("%s while every pod of %s is replaced: %d answers in %.0f s, %d failed, %d late, longest %s", by, p.name, load.Answers, load.Seconds, lost, load.Late, load.Max)
				// What comes late waited for a processor: two nodes' switches are processes of one machine, on which pods start.
				if load.Answers < 100 || lost > 0 || load.Late*50 > load.Answers {
					t.Errorf("%s: %d failed, %d late: %v %+v", by, lost, load.Late, load.Errors, load.Failures)
				}
			}
			started := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: "red", Name: "after-" + p.name, Node: far.Spec.NodeName}))[0]
			env.Reach(t, client, started)
			// It goes before the next part's packets flow: a link that goes from a node empties the userspace switch's copy of the routes, and
			// what is on its way to another node is dropped meanwhile (docs/design/networks.md), which is no fault of the part.
			env.DeletePod(t, started)
			cluster.Eventually(t, cluster.ReadyWithin, started.Name+" is gone", func(ctx context.Context) error {
				_, err := env.Clients.Kube.CoreV1().Pods(started.Namespace).Get(ctx, started.Name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return errors.Join(errors.New("it is still there"), err)
			})
		})
	}
}

// replaceAll deletes the pods of a part one after another, each when the one before is back.
func replaceAll(t *testing.T, p part) {
	t.Helper()
	pods := env.Clients.Kube.CoreV1().Pods(system)
	list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: p.selector})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("find pods of %s: %d, %v", p.name, len(list.Items), err)
	}
	for _, old := range list.Items {
		if err := pods.Delete(t.Context(), old.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t, cluster.ReadyWithin, p.name+" is back on "+old.Spec.NodeName, func(ctx context.Context) error {
			now, err := pods.List(ctx, metav1.ListOptions{LabelSelector: p.selector})
			if err != nil {
				return err
			}
			if len(now.Items) != len(list.Items) || slices.ContainsFunc(now.Items, func(n corev1.Pod) bool { return n.UID == old.UID || !cluster.IsReady(&n) }) {
				return fmt.Errorf("%d pods, not all are ready", len(now.Items))
			}
			return nil
		})
	}
}

// whileAsking has a pod ask an address, by TCP over connections that last and by UDP, while something happens.
func whileAsking(t *testing.T, client *corev1.Pod, to netip.Addr, happens func()) map[wire.LoadBy]wire.Load {
	t.Helper()
	loads := map[wire.LoadBy]wire.Load{}
	var mu sync.Mutex
	var running sync.WaitGroup
	attended, leave := context.WithCancel(t.Context())
	defer leave()
	for _, by := range []wire.LoadBy{wire.LoadTCP, wire.LoadUDP} {
		stdin, end := io.Pipe()
		context.AfterFunc(attended, func() { end.Close() })
		running.Go(func() {
			out, err := env.Exec(t.Context(), client.Namespace, client.Name, stdin, matrix.Program, "load", "-by="+string(by), "-workers=2", "-pause=5ms",
				"-until-eof", "-for=10m", "-at="+netip.AddrPortFrom(to, wire.DefaultPort).String())
			var load wire.Load
			if err == nil {
				err = json.Unmarshal(out, &load)
			}
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			loads[by] = load
		})
	}
	happens()
	leave()
	running.Wait()
	return loads
}
