//go:build e2e

package installed

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// emptyBefore are directories that the sandbox makes, for those sandboxes in which Atoll is no pod. They are empty: else
// something that was in them would be missing afterwards, and found.
var emptyBefore = []string{"d /run/atoll", "d /run/openvswitch", "d /run/ovn"}

// TestUninstall: what hangs on Atoll is in the way, and named; told to, it goes, and each node and the API have what they had
// before the installation. Then Atoll is installed again. Meanwhile the API, and a pod in a node's own network, go on. Other
// tests of the package may come before and after it.
func TestUninstall(t *testing.T) {
	object := cluster.PodSpec{Namespace: "kube-system", Name: "goes-on", Node: env.Box.Nodes()[0]}.Object()
	object.Spec.HostNetwork = true
	goesOn := env.WaitReady(t, env.Make(t, object))[0]

	out, err := atoll(t.Context(), "uninstall")
	if err == nil || !strings.Contains(out, "Pod red/web-0") || !strings.Contains(out, "Network red") || !strings.Contains(out, "--force") {
		t.Fatalf("want a refusal that names what hangs on it: %v\n%s", err, out)
	}
	if _, err := env.Clients.Kube.AppsV1().Deployments(system).Get(t.Context(), "atoll-controller", metav1.GetOptions{}); err != nil {
		t.Fatalf("a refusal has changed something: %v", err)
	}

	failed := whileAskingTheAPI(t, func() {
		began := time.Now()
		if out, err := atoll(t.Context(), "uninstall", "--force"); err != nil {
			t.Fatalf("uninstall: %v\n%s", err, out)
		}
		t.Logf("uninstalled after %.0f s", time.Since(began).Seconds())
		env.NothingLeft(t, bare, emptyBefore...)
		began = time.Now()
		if err := install(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("installed again after %.0f s", time.Since(began).Seconds())
		if err := applyExample(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if failed > 0 {
		t.Errorf("%d questions to the API failed", failed)
	}
	now, err := env.Clients.Kube.CoreV1().Pods(goesOn.Namespace).Get(t.Context(), goesOn.Name, metav1.GetOptions{})
	if err != nil || now.UID != goesOn.UID || now.Status.ContainerStatuses[0].RestartCount != 0 || !cluster.IsReady(now) {
		t.Errorf("the pod in its node's network did not go on: %+v, %v", now.Status, err)
	}
	TestTwoNetworks(t)
}

// whileAskingTheAPI counts how many of ten questions a second the API server did not answer while something happens.
func whileAskingTheAPI(t *testing.T, happens func()) int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var failed, asked atomic.Int64
	ended := make(chan struct{})
	go func() { // ends with ctx
		defer close(ended)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			_, err := env.Clients.Kube.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
			if err != nil && ctx.Err() == nil {
				failed.Add(1)
				t.Log(err)
			}
			asked.Add(1)
		}
	}()
	// A test that fails ends here, too.
	defer func() {
		cancel()
		<-ended
		t.Logf("%d questions to the API, %d failed", asked.Load(), failed.Load())
	}()
	happens()
	return failed.Load()
}
