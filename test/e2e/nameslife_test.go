//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/netip"
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
// replaced by a rollout of its DaemonSet: each of them, by UDP and TCP. Killed, it is back soon.
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
		pods, err := env.PodsOf(t.Context(), agent)
		if err != nil {
			t.Fatal(err)
		}
		if err := env.EndContainer(t.Context(), &pods[0], "agent", syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		start := env.Stop(t, agent)
		<-time.After(agentAway)
		start()
		env.WaitServes(t, agent)
	}))
	none("the agents' pods are replaced", whileAsking(t, client, func() { rollout(t, "atoll-agent") }))
	none("the DNS programs' pods are replaced", whileAsking(t, client, func() { rollout(t, "atoll-dns") }))
	var back time.Duration
	for _, load := range whileAsking(t, client, func() {
		began := time.Now()
		env.Kill(t, names)
		back = time.Since(began)
	}) {
		t.Logf("the DNS program is killed, and ready after %s: %d answers, failed: %v, the last at %s", back, load.Answers, load.Errors,
			lastFailure(load))
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
			out, err := env.Exec(t.Context(), from.Namespace, from.Name, stdin, matrix.Program, "load", "-by="+string(by), "-workers=2",
				"-pause=5ms",
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

// rollout replaces the pods of a DaemonSet, as an upgrade does, and waits until that is done.
func rollout(t *testing.T, name string) {
	t.Helper()
	env.Kubectl(t, "rollout", "restart", "daemonset", name, "-n", cluster.System)
	env.Kubectl(t, "rollout", "status", "daemonset", name, "-n", cluster.System, "--timeout="+cluster.ReadyWithin.String())
}

// lastFailure is when the last question was asked that failed, since the first.
func lastFailure(load wire.Load) time.Duration {
	if len(load.Failures) == 0 {
		return 0
	}
	return load.Failures[len(load.Failures)-1].Asked.Sub(load.Failures[0].Asked)
}
