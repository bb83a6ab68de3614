//go:build integration

package agent

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/wait"
)

// TestPodsAreToldWhatTheyWaitFor stops what stands between a pod and its port, one thing after the other: within ten seconds an
// Event on the pod names it, and the pod gets its port when it goes on.
func TestPodsAreToldWhatTheyWaitFor(t *testing.T) {
	n := newNode(t)
	n.startOVN()
	a := n.agent()
	api := kubefake.NewClientset()
	a.teller = newTeller(n.name, api.CoreV1(), a.log)
	// Where all is well, nobody is told anything.
	quick := newPod(t, a, "quick", 5)
	n.addLogicalPort("red", quick)
	if _, err := a.Add(t.Context(), quick.request); err != nil {
		t.Fatal(err)
	}
	for i, broken := range []struct {
		name, reason string
		says         string
		daemon       *exec.Cmd
		// beside stops too, before the pod's port is asked for.
		beside *exec.Cmd
	}{
		{name: "northd", daemon: n.daemons["northd"], reason: model.ReasonNorthdBehind, says: "ovn-northd is away or behind"},
		{
			name: "ovn-controller", daemon: n.daemons["controller"], reason: model.ReasonOVNControllerBehind, says: "has not claimed the pod's port",
		},
		{name: "ovs-vswitchd", daemon: n.vswitchd, reason: model.ReasonSwitchAway, says: "is ovs-vswitchd running"},
		{
			name: "southbound", daemon: n.daemons["central"], reason: model.ReasonSouthboundUnreachable,
			says: "does not reach OVN's southbound database", beside: n.daemons["northd"],
		},
	} {
		t.Run(broken.name, func(t *testing.T) {
			p := newPod(t, a, broken.name, byte(6+i))
			stop := func(daemon *exec.Cmd) {
				must(t, daemon.Process.Signal(syscall.SIGSTOP))
				t.Cleanup(func() { _ = daemon.Process.Signal(syscall.SIGCONT) })
			}
			if broken.beside != nil {
				stop(broken.beside)
				n.addLogicalPort("red", p)
			}
			stop(broken.daemon)
			if broken.beside == nil {
				n.addLogicalPort("red", p)
			}
			// A northd that is only slow is not what the pod waits for.
			if broken.beside == nil && broken.daemon != n.daemons["northd"] {
				n.nbctl("--wait=sb", "sync")
			}
			began := time.Now()
			added := make(chan error, 1)
			go func() {
				_, err := a.Add(t.Context(), p.request)
				added <- err
			}()
			told := func() (reasons []string, messages string) {
				events, err := api.CoreV1().Events("red").List(t.Context(), metav1.ListOptions{})
				must(t, err)
				for _, e := range events.Items {
					if e.InvolvedObject.Name == broken.name {
						reasons, messages = append(reasons, e.Reason), messages+e.Message
					}
				}
				return reasons, messages
			}
			wait.Eventually(t, 10*time.Second, "the pod is told", func(context.Context) error {
				select {
				case err := <-added:
					t.Fatalf("the ADD ended: %v", err)
				default:
				}
				reasons, messages := told()
				if slices.Contains(reasons, broken.reason) && strings.Contains(messages, broken.says) {
					t.Logf("after %v: %s: %s", time.Since(began).Round(100*time.Millisecond), reasons, messages)
					return nil
				}
				return fmt.Errorf("%q %s; want %s that says %q", reasons, messages, broken.reason, broken.says)
			})
			for _, daemon := range []*exec.Cmd{broken.daemon, broken.beside} {
				if daemon != nil {
					must(t, daemon.Process.Signal(syscall.SIGCONT))
				}
			}
			if err := <-added; err != nil {
				t.Errorf("with %s back: %v", broken.name, err)
			}
			if reasons, messages := told(); len(reasons) != 1 {
				t.Errorf("told %q: %s", reasons, messages)
			}
		})
	}
	events, err := api.CoreV1().Events("red").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, e := range events.Items {
		if e.InvolvedObject.Name == "quick" {
			t.Errorf("a pod that did not wait was told: %s", e.Message)
		}
	}
}
