//go:build e2e

package installed

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/tier"
)

// TestNamespacesGoWithoutControllers: while no controller runs, inspection answers, and says so, and a namespace can be deleted.
// The control, in make test-all: when inspection runs no more either, a namespace stays, and says why; it goes when inspection is
// back.
func TestNamespacesGoWithoutControllers(t *testing.T) {
	const controller, inspection = "atoll-controller", "atoll-inspect"
	scale := func(name string, replicas int) {
		t.Helper()
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if out, err := kubectl(ctx, "scale", "deployment", "-n", system, name, fmt.Sprint("--replicas=", replicas)); err != nil {
			t.Fatalf("scale %s: %v\n%s", name, err, out)
		}
	}
	before := map[string]int{}
	for _, name := range []string{controller, inspection} {
		d, err := env.Clients.Kube.AppsV1().Deployments(system).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		before[name] = int(*d.Spec.Replicas)
		t.Cleanup(func() { scale(name, before[name]) })
	}
	none := func(name string) {
		t.Helper()
		scale(name, 0)
		cluster.Eventually(t, cluster.Patience, "no pod of "+name, func(ctx context.Context) error {
			pods, err := env.Clients.Kube.CoreV1().Pods(system).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
			if err == nil && len(pods.Items) > 0 {
				err = fmt.Errorf("there are %d", len(pods.Items))
			}
			return err
		})
	}
	none(controller)

	cluster.Eventually(t, cluster.Patience, "atoll status says that no controller leads", func(ctx context.Context) error {
		out, err := atoll(ctx, "status")
		if err == nil || !strings.Contains(out, "atoll-inspect ") || !strings.Contains(out, "no controller leads") ||
			strings.Contains(out, "does not answer") {
			return fmt.Errorf("it says (%w):\n%s", err, out)
		}
		return nil
	})
	deleted(t, "goes-without-controllers")
	cluster.Eventually(t, cluster.Patience, "the namespace has gone", gone("goes-without-controllers"))

	if tier.All() {
		none(inspection)
		staysWithoutInspection(t)
	}

	// Inspection has its certificates from a controller.
	for _, name := range []string{controller, inspection} {
		scale(name, before[name])
		if out, err := kubectl(t.Context(), "rollout", "status", "-n", system, "deployment/"+name, "--timeout=4m"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if tier.All() {
		// The namespace controller asks again after pauses that grow.
		cluster.Eventually(t, 2*cluster.Patience, "the namespace has gone, too", gone("stays-without-inspection"))
	}
}

// staysWithoutInspection deletes a namespace while inspection is away: it stays, and says why.
func staysWithoutInspection(t *testing.T) {
	t.Helper()
	// The API server has to notice first.
	cluster.Eventually(t, cluster.Patience, "the API is away", func(ctx context.Context) error {
		out, err := kubectl(ctx, "get", "--raw", "/apis/inspect.atoll.dev/v1alpha1")
		if err == nil {
			return fmt.Errorf("it answers %s", out)
		}
		return nil
	})
	deleted(t, "stays-without-inspection")
	cluster.Eventually(t, cluster.Patience, "the namespace says why it stays", func(ctx context.Context) error {
		ns, err := env.Clients.Kube.CoreV1().Namespaces().Get(ctx, "stays-without-inspection", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range ns.Status.Conditions {
			if c.Type == corev1.NamespaceDeletionDiscoveryFailure && c.Status == corev1.ConditionTrue &&
				strings.Contains(c.Message, "inspect.atoll.dev") {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", ns.Status)
	})
}

// deleted makes a namespace and begins to delete it.
func deleted(t *testing.T, name string) {
	t.Helper()
	namespaces := env.Clients.Kube.CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := namespaces.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// gone is an error while there is a namespace.
func gone(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		ns, err := env.Clients.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("it is there: %+v", ns.Status)
	}
}
