//go:build e2e

package installed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUpgrade: an upgrade to a kustomization of one's own, which differs in arguments of the controller, rolls the controller and
// nothing else, and waits for it. It is not done without being told from what, since the last time it was a directory.
func TestUpgrade(t *testing.T) {
	if out, err := atoll(t.Context(), "upgrade"); err == nil || !strings.Contains(out, "name that, or where it is now, with -k") {
		t.Fatalf("an upgrade that was not told from what: %v\n%s", err, out)
	}
	// In the control plane's place, /tmp is another.
	dir, err := os.MkdirTemp(filepath.Join(env.Root, "bin"), "upgrade-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	base, err := filepath.Rel(dir, filepath.Join(env.Root, "dist/overlays/sandbox"))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%s]
patches:
- target: {kind: Deployment, name: atoll-controller}
  patch: |-
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --log-level=debug}
`, base)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	before := podsOf(t)
	out, err := atoll(t.Context(), "upgrade", "-k", dir)
	if err != nil {
		t.Fatalf("upgrade: %v\n%s", err, out)
	}
	after := podsOf(t)
	for name, uid := range before {
		if is := after[name] == uid; is == strings.HasPrefix(name, "atoll-controller-") {
			t.Errorf("pod %s stayed: %t", name, is)
		}
	}
	controller, err := env.Clients.Kube.AppsV1().Deployments(system).Get(t.Context(), "atoll-controller", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := controller.Status; s.UpdatedReplicas != 2 || s.AvailableReplicas != 2 ||
		!strings.Contains(fmt.Sprint(controller.Spec.Template.Spec.Containers[0].Args), "debug") {
		t.Errorf("the upgrade has ended, and the controller is not ready: %+v", s)
	}
	// In the order in which programs depend on each other.
	last := -1
	for _, title := range []string{
		"DaemonSet atoll-ovn-central", "Deployment atoll-controller", "Deployment atoll-inspect",
		"DaemonSet atoll-ovn-node", "DaemonSet atoll-agent", "DaemonSet atoll-dns",
	} {
		at := strings.Index(out, title)
		if at <= last {
			t.Errorf("%s is not where it belongs:\n%s", title, out)
		}
		last = at
	}
}

// podsOf are the pods of Atoll, by their names.
func podsOf(t *testing.T) map[string]string {
	t.Helper()
	list, err := env.Clients.Kube.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, p := range list.Items {
		out[p.Name] = string(p.UID)
	}
	return out
}
