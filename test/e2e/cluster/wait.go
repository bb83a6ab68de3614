package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/wait"
)

// LookEvery is how often a condition on the cluster is looked at, at the most.
const LookEvery = 100 * time.Millisecond

// Eventually is wait.Eventually: it waits until check returns nil, as long as the machine has not given the time within.
func Eventually(t *testing.T, within time.Duration, what string, check func(ctx context.Context) error) {
	t.Helper()
	wait.Eventually(t, within, what, check)
}

// Patience is how long what is not promised within a time may take. It is there for what never comes: four tests at once can take a minute
// for what else takes a second.
const Patience = 3 * time.Minute

// ReadyWithin is how long a few pods may take on a busy machine.
const ReadyWithin = 4 * time.Minute

// WaitReady waits until the pods are Ready and returns them as they are then.
func (c *Cluster) WaitReady(t *testing.T, pods ...*corev1.Pod) []*corev1.Pod {
	t.Helper()
	now := make([]*corev1.Pod, len(pods))
	for i, p := range pods {
		Eventually(t, ReadyWithin, fmt.Sprintf("pod %s/%s Ready", p.Namespace, p.Name), func(ctx context.Context) error {
			got, err := c.Clients.Kube.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !IsReady(got) {
				return fmt.Errorf("%s, last Event %s", got.Status.Phase, c.Clients.LastEvent(ctx, got))
			}
			now[i] = got
			return nil
		})
	}
	return now
}

func IsReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// WaitGone waits until the pods do not exist.
func (c *Cluster) WaitGone(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		Eventually(t, ReadyWithin, fmt.Sprintf("pod %s/%s gone", p.Namespace, p.Name), func(ctx context.Context) error {
			got, err := c.Clients.Kube.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
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

// WaitEvent waits for an Event of that reason on a pod and returns its message.
func (c *Cluster) WaitEvent(t *testing.T, p *corev1.Pod, reason string) string {
	t.Helper()
	message := ""
	Eventually(t, Patience, fmt.Sprintf("Event %s on pod %s/%s", reason, p.Namespace, p.Name), func(ctx context.Context) error {
		events, err := c.Clients.Kube.CoreV1().Events(p.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.uid=" + string(p.UID),
		})
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

// WaitCondition waits until a Network has a condition and returns its message.
func (c *Cluster) WaitCondition(t *testing.T, network, kind string, status metav1.ConditionStatus, reason string) string {
	t.Helper()
	return c.WaitConditionWithin(t, Patience, network, kind, status, reason)
}

// WaitConditionWithin waits until a Network has a condition, no longer than within, and returns its message.
func (c *Cluster) WaitConditionWithin(
	t *testing.T, within time.Duration, network, kind string, status metav1.ConditionStatus, reason string,
) string {
	t.Helper()
	message := ""
	Eventually(t, within, fmt.Sprintf("Network %s with condition %s=%s %s", network, kind, status, reason), func(ctx context.Context) error {
		n, err := c.Clients.Network(ctx, network)
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

// WaitPhase waits until a Network is in a phase.
func (c *Cluster) WaitPhase(t *testing.T, network string, phase v1alpha1.NetworkPhase) {
	t.Helper()
	Eventually(t, Patience, fmt.Sprintf("Network %s %s", network, phase), func(ctx context.Context) error {
		n, err := c.Clients.Network(ctx, network)
		if err == nil && n.Status.Phase != phase {
			err = fmt.Errorf("it is %q: %+v", n.Status.Phase, n.Status.Conditions)
		}
		return err
	})
}

// WaitNetworkGone waits until a Network does not exist.
func (c *Cluster) WaitNetworkGone(t *testing.T, name string) {
	t.Helper()
	Eventually(t, ReadyWithin, "Network "+name+" gone", func(ctx context.Context) error {
		n, err := c.Clients.Network(ctx, name)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("it is still there: %+v", n.Status)
	})
}

// WaitNoRows waits until the northbound database holds no row of a Network.
func (c *Cluster) WaitNoRows(t *testing.T, network string) {
	t.Helper()
	Eventually(t, Patience, "no rows of Network "+network, func(context.Context) error {
		if count := c.NB.CountOf(t, network); count > 0 {
			return fmt.Errorf("%d rows", count)
		}
		return nil
	})
}

// CheckDatabases has `atoll check` compare what the API server asks for with what OVN's databases hold.
func (c *Cluster) CheckDatabases(ctx context.Context) error {
	said, err := c.Box.Exec(ctx, sandbox.Central, filepath.Join(c.Options.Bin, "atoll"), "check", "--settle", "10s", "--kubeconfig",
		c.Box.Kubeconfig())
	if err != nil {
		return fmt.Errorf("atoll check: %w\n%s", err, said)
	}
	return nil
}

// ShowsNetworkEvent returns an error unless kubectl shows an Event of that reason on a Network.
func (c *Cluster) ShowsNetworkEvent(ctx context.Context, network, reason string) error {
	out, err := c.Program(ctx, "kubectl", "describe", "network", network).CombinedOutput()
	if err == nil && !strings.Contains(string(out), reason) {
		err = errors.New("kubectl describe does not show it")
	}
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, out)
	}
	return nil
}
