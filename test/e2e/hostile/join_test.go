//go:build e2e

package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// joins makes a pod in the namespace attackers, which asks for another's Network. The attacker has it if it starts and
// reaches the victim at its own address; it failed when the pod is refused or has an Event that says so.
func joins(t *testing.T, s cluster.PodSpec, victim *corev1.Pod) attempt {
	t.Helper()
	edit := mallory(t)
	s.Namespace = "attackers"
	address := netip.MustParseAddr(cluster.OwnAddress(t, victim))
	return func(ctx context.Context) (string, error) {
		p, err := edit.CoreV1().Pods(s.Namespace).Create(ctx, s.Object(), metav1.CreateOptions{})
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		defer removeNow(p)
		for {
			now, err := env.Clients.Kube.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			if cluster.IsReady(now) {
				return dials(now, address, wire.DefaultPort, wire.TCP)(ctx)
			}
			if refused, err := refusal(ctx, p); err != nil || refused != "" {
				return "", err
			}
			if err := pause(ctx, fmt.Errorf("%s neither starts nor is refused: %s", p.Name, env.Clients.LastEvent(ctx, now))); err != nil {
				return "", err
			}
		}
	}
}

// refusal is what the controller has against a pod, by its Events.
func refusal(ctx context.Context, p *corev1.Pod) (string, error) {
	events, err := env.Clients.Kube.CoreV1().Events(p.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + string(p.UID),
	})
	if err != nil {
		return "", err
	}
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning && (e.ReportingController == "atoll-controller" || e.Source.Component == "atoll-controller") {
			return e.Reason + ": " + e.Message, nil
		}
	}
	return "", nil
}

// removeNow deletes a pod and waits until its name is free.
func removeNow(p *corev1.Pod) {
	ctx, cancel := cluster.AfterTest()
	defer cancel()
	now := int64(0)
	for {
		err := env.Clients.Kube.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID},
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || pause(ctx, err) != nil {
			return
		}
	}
}

// TestForeignNetwork: a tenant's pods ask for another tenant's Network, by label and by interface. That Network's selector
// holds them.
func TestForeignNetwork(t *testing.T) {
	victim := member(t, "victims/near")
	spec("allowedNamespaces", "victims", func(s *v1alpha1.NetworkSpec) { s.AllowedNamespaces = &metav1.LabelSelector{} }).holds(t,
		attack{"by label", joins(t, cluster.PodSpec{Name: "by-label", Network: "victims"}, victim)},
		attack{"by interface", joins(t, cluster.PodSpec{Name: "by-nics", NICs: `[{"network":"victims"}]`}, victim)},
		attack{
			"by interface, at a victim's address", joins(t, cluster.PodSpec{Name: "by-address", NICs: `[{"network":"victims","ip":"10.0.0.70"}]`},
				victim),
		},
	)
}
