//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// clusterDNS is where pods ask.
var clusterDNS = netip.MustParseAddrPort("10.96.0.10:53")

// TestNamesGoOn: a pod's DNS questions are answered while its node's agent is killed, away and replaced, and while the DNS program is
// replaced by another as a DaemonSet does it: each of them, by UDP and TCP. Killed, it is back soon.
//
// It runs alone: it counts single questions.
func TestNamesGoOn(t *testing.T) {
	const ns, node = "names-go-on", "n1"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, ns, ns)
	client := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "client", Node: node}))[0]
	agent, names := cluster.Daemon{Place: node, Name: "atoll-agent"}, cluster.Daemon{Place: node, Name: "atoll-dns"}

	none := func(what string, loads []wire.Load) {
		t.Helper()
		for _, load := range loads {
			t.Logf("%s: %d answers in %.1f s, longest %s", what, load.Answers, load.Seconds, load.Max)
			if len(load.Errors) > 0 || load.Answers < 100 {
				t.Errorf("%s: %d answers, failed: %v (%+v)", what, load.Answers, load.Errors, load.Failures)
			}
		}
	}
	none("the agent is killed, and away", whileAsking(t, client, func() {
		if err := env.Box.Signal(t.Context(), agent.Place, agent.Name, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := env.Box.Stop(t.Context(), agent.Place, agent.Name); err != nil {
			t.Fatal(err)
		}
		start := env.StartAgain(t, agent)
		<-time.After(agentAway)
		start()
		awaitReady(t, agent)
	}))
	none("the agent is replaced", whileAsking(t, client, func() {
		if err := env.Box.Restart(t.Context(), agent.Place, agent.Name); err != nil {
			t.Fatal(err)
		}
		awaitReady(t, agent)
	}))
	none("the DNS program is replaced, there and back", whileAsking(t, client, func() {
		end := secondNames(t, node)
		if err := env.Box.Stop(t.Context(), names.Place, names.Name); err != nil {
			t.Fatal(err)
		}
		env.StartAgain(t, names)()
		awaitReady(t, names)
		end()
	}))
	var back time.Duration
	for _, load := range whileAsking(t, client, func() {
		began := time.Now()
		env.Kill(t, names)
		back = time.Since(began)
	}) {
		t.Logf("the DNS program is killed, and ready after %s: %d answers, failed: %v, the last at %s", back, load.Answers, load.Errors, lastFailure(load))
	}
	if back > 10*time.Second {
		t.Errorf("the DNS program was back after %s", back)
	}
	none("afterwards", whileAsking(t, client, func() { <-time.After(2 * time.Second) }))
	// Who starts now has names, from a program that was told.
	other := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "other", Node: node}))[0]
	if said, err := env.Dig(t.Context(), other, "A", "kubernetes.default.svc.cluster.local"); err != nil || said.Status != "NOERROR" {
		t.Errorf("%+v (%v)", said, err)
	}
}

// agentAway is how long the agent is away.
const agentAway = 15 * time.Second

// whileAsking asks DNS questions in a pod, by UDP and by TCP, from a moment before do until a moment after it, and says what came of them.
func whileAsking(t *testing.T, from *corev1.Pod, do func()) []wire.Load {
	t.Helper()
	ways := []wire.LoadBy{wire.LoadDNS, wire.LoadDNSTCP}
	loads := make([]wire.Load, len(ways))
	asking, leave := context.WithCancel(t.Context())
	defer leave()
	var running sync.WaitGroup
	for i, by := range ways {
		stdin, end := io.Pipe()
		context.AfterFunc(asking, func() { end.Close() })
		running.Go(func() {
			out, err := env.Exec(t.Context(), from.Namespace, from.Name, stdin, matrix.Program, "load", "-by="+string(by), "-workers=2", "-pause=5ms",
				"-until-eof", "-for=3m", "-at="+clusterDNS.String())
			if err == nil {
				err = json.Unmarshal(out, &loads[i])
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	<-time.After(time.Second)
	do()
	<-time.After(time.Second)
	leave()
	running.Wait()
	return loads
}

// secondNames starts a second DNS program on a node, which takes over from the first, and returns how to end it as a kubelet does.
func secondNames(t *testing.T, node string) (end func()) {
	t.Helper()
	const probe = "/run/atoll-second.sock"
	program := filepath.Join(filepath.Dir(env.Options.Program), "atoll-dns")
	// Beside the first one's arguments it needs a socket of its own, by which one can tell that it is ready.
	cmd, err := env.Box.Command(t.Context(), node, "sh", "-c", `"$@" & read -r end; kill -TERM $!; wait $!`, "sh", program,
		"--kubeconfig="+filepath.Join(env.Options.State, "kubeconfig", "atoll-dns"),
		"--probe-socket="+probe)
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the second DNS program: %v", err)
		}
	})
	t.Cleanup(end)
	cluster.Eventually(t, cluster.Patience, "the second DNS program is ready", func(ctx context.Context) error {
		_, err := env.Box.Exec(ctx, node, program, "ready", "--socket="+probe)
		return err
	})
	return end
}

// awaitReady waits until a daemon serves.
func awaitReady(t *testing.T, d cluster.Daemon) {
	t.Helper()
	cluster.Eventually(t, cluster.Patience, d.String(), func(ctx context.Context) error {
		now, err := env.Find(ctx, d)
		if err == nil && !now.Ready {
			err = fmt.Errorf("%+v", now)
		}
		return err
	})
}

// lastFailure is when the last question was asked that failed, since the first.
func lastFailure(load wire.Load) time.Duration {
	if len(load.Failures) == 0 {
		return 0
	}
	return load.Failures[len(load.Failures)-1].Asked.Sub(load.Failures[0].Asked)
}
