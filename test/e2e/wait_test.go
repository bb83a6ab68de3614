//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/sandbox"
	"github.com/atoll-net/atoll/test/matrix"
)

// lookEvery is how often a condition on the cluster is looked at.
const lookEvery = 50 * time.Millisecond

// eventually waits until check returns nil. When the time is over the test ends with the last error.
func eventually(t *testing.T, within time.Duration, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last := check(ctx)
	for last != nil {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, within, last)
		case <-tick.C:
		}
		if err := check(ctx); err == nil || ctx.Err() == nil {
			last = err
		}
	}
}

// patience is how long what is not promised within a time may take. It is there for what never comes: a machine that others use, and
// that five tests use at once, can take many seconds for what else takes one.
const patience = time.Minute

// readyWithin is how long a few pods may take on a busy machine.
const readyWithin = 90 * time.Second

// waitReady waits until the pods are Ready and returns them as they are then.
func (c *cluster) waitReady(t *testing.T, pods ...*corev1.Pod) []*corev1.Pod {
	t.Helper()
	now := make([]*corev1.Pod, len(pods))
	for i, p := range pods {
		eventually(t, readyWithin, fmt.Sprintf("pod %s/%s Ready", p.Namespace, p.Name), func(ctx context.Context) error {
			got, err := c.clients.Kube.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !isReady(got) {
				return fmt.Errorf("%s, last Event %s", got.Status.Phase, c.clients.LastEvent(ctx, got))
			}
			now[i] = got
			return nil
		})
	}
	return now
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// waitGone waits until the pods do not exist.
func (c *cluster) waitGone(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		eventually(t, readyWithin, fmt.Sprintf("pod %s/%s gone", p.Namespace, p.Name), func(ctx context.Context) error {
			got, err := c.clients.Kube.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return err
			}
			return fmt.Errorf("%s is still there: %s", got.UID, got.Status.Phase)
		})
	}
}

// waitEvent waits for an Event of that reason on a pod and returns its message.
func (c *cluster) waitEvent(t *testing.T, p *corev1.Pod, reason string) string {
	t.Helper()
	message := ""
	eventually(t, patience, fmt.Sprintf("Event %s on pod %s/%s", reason, p.Namespace, p.Name), func(ctx context.Context) error {
		events, err := c.clients.Kube.CoreV1().Events(p.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(p.UID)})
		if err != nil {
			return err
		}
		var reasons []string
		for _, e := range events.Items {
			if e.Reason == reason {
				message = e.Message
				return nil
			}
			reasons = append(reasons, e.Reason)
		}
		return fmt.Errorf("only %q", reasons)
	})
	return message
}

// waitCondition waits until a Network has a condition and returns its message.
func (c *cluster) waitCondition(t *testing.T, network, kind string, status metav1.ConditionStatus, reason string) string {
	t.Helper()
	message := ""
	eventually(t, patience, fmt.Sprintf("Network %s with condition %s=%s %s", network, kind, status, reason), func(ctx context.Context) error {
		n, err := c.clients.Network(ctx, network)
		if err != nil {
			return err
		}
		for _, have := range n.Status.Conditions {
			if have.Type == kind && have.Status == status && (reason == "" || have.Reason == reason) {
				message = have.Message
				return nil
			}
		}
		return fmt.Errorf("phase %q, conditions %+v", n.Status.Phase, n.Status.Conditions)
	})
	return message
}

// waitPhase waits until a Network is in a phase.
func (c *cluster) waitPhase(t *testing.T, network string, phase v1alpha1.NetworkPhase) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("Network %s %s", network, phase), func(ctx context.Context) error {
		n, err := c.clients.Network(ctx, network)
		if err == nil && n.Status.Phase != phase {
			err = fmt.Errorf("it is %q: %+v", n.Status.Phase, n.Status.Conditions)
		}
		return err
	})
}

// waitRows waits until the example's northbound rows are exactly want.
func (c *cluster) waitRows(t *testing.T, within time.Duration, want map[string]string) {
	t.Helper()
	eventually(t, within, "the same northbound rows", func(context.Context) error {
		if got := c.nb.dump(t); !maps.Equal(want, got) {
			return fmt.Errorf("difference (-want +got):\n%s", cmp.Diff(want, got))
		}
		return nil
	})
}

// waitNoRows waits until the northbound database holds no row of a Network.
func (c *cluster) waitNoRows(t *testing.T, network string) {
	t.Helper()
	eventually(t, patience, "no rows of Network "+network, func(context.Context) error {
		if count := c.nb.countOf(t, network); count > 0 {
			return fmt.Errorf("%d rows", count)
		}
		return nil
	})
}

// checkMatrix probes the example's pods until the matrix is as expected, which after a fault takes as long as
// OVN takes. A leak is never forgiven.
func (c *cluster) checkMatrix(t *testing.T, within time.Duration) {
	t.Helper()
	eventually(t, within, "the matrix as expected", func(ctx context.Context) error {
		pods, err := matrix.List(ctx, c.clients.Kube, selector)
		if err != nil {
			return err
		}
		m, err := matrix.Run(ctx, c.exec, pods)
		if err != nil {
			return err
		}
		verdict := m.Verdict()
		if verdict.OK() {
			t.Log(verdict)
			return c.checkDatabases(ctx)
		}
		if m.Count(matrix.Leaked) > 0 {
			t.Fatalf("a packet crossed Networks: %q", verdict.Failures)
		}
		return fmt.Errorf("%s: %q", verdict, verdict.Failures)
	})
}

// checkDatabases has `atoll check` compare what the API server asks for with what OVN's databases hold.
func (c *cluster) checkDatabases(ctx context.Context) error {
	_, err := c.box.Exec(ctx, sandbox.Central, filepath.Join(c.options.Bin, "atoll"), "check", "--settle", "10s",
		"--kubeconfig", c.box.Kubeconfig(), "--nb-address", c.box.NBAddress(), "--sb-address", c.box.SBAddress())
	if err != nil {
		return fmt.Errorf("atoll check: %w", err)
	}
	return nil
}
