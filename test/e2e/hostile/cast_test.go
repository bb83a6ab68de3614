//go:build e2e

package hostile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// stage is where the cast plays. The attackers' Network and the victims' have the same addresses. Namespaces say which Pod
// Security level they need: attackers have capabilities that a careful cluster does not give. Mallory is a user who may
// edit the attackers' namespace.
const stage = `
apiVersion: atoll.dev/v1alpha1
kind: Network
metadata: {name: attackers}
spec:
  type: vpc
  subnets: [{name: a, cidrs: [10.0.0.0/24, "fd00:10::/64"]}]
  allowedNamespaces: {matchLabels: {kubernetes.io/metadata.name: attackers}}
---
apiVersion: atoll.dev/v1alpha1
kind: Network
metadata: {name: victims}
spec:
  type: vpc
  subnets: [{name: a, cidrs: [10.0.0.0/24, "fd00:10::/64"]}]
  allowedNamespaces: {matchLabels: {kubernetes.io/metadata.name: victims}}
---
apiVersion: v1
kind: Namespace
metadata:
  name: attackers
  labels: {atoll.dev/network: attackers, pod-security.kubernetes.io/enforce: privileged}
---
apiVersion: v1
kind: Namespace
metadata:
  name: victims
  labels: {atoll.dev/network: victims, pod-security.kubernetes.io/enforce: privileged}
---
apiVersion: v1
kind: Namespace
metadata:
  name: plain
  labels: {pod-security.kubernetes.io/enforce: privileged}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: mallory, namespace: attackers}
subjects: [{kind: User, name: mallory, apiGroup: rbac.authorization.k8s.io}]
roleRef: {kind: ClusterRole, name: edit, apiGroup: rbac.authorization.k8s.io}
`

// rights are what the container of an attacker may do.
type rights int

const (
	// common are those that containers have where nobody chose: NET_RAW is among them.
	common rights = iota
	// none has no capability at all: ordinary sockets of TCP and UDP.
	none
	// strong may change its interfaces and send any frame.
	strong
)

// castPod is a netprobe with these rights. One without any serves no ICMP, for which it would need a raw socket.
func castPod(s cluster.PodSpec, r rights) *corev1.Pod {
	p := s.Object()
	container := &p.Spec.Containers[0]
	no := false
	switch r {
	case none:
		container.Command = append(container.Command, "-icmp=false")
		container.SecurityContext = &corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, AllowPrivilegeEscalation: &no,
		}
	case strong:
		container.SecurityContext = &corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_RAW", "NET_ADMIN"}},
		}
	case common:
	}
	return p
}

// cast are the pods that all tests may use, and must leave as they are. No attacker has a victim's address, so that a
// frame for it can mean nobody else.
func cast() []*corev1.Pod {
	at := func(address string) string { return `[{"ip":"` + address + `"}]` }
	return []*corev1.Pod{
		castPod(cluster.PodSpec{Namespace: "attackers", Name: "strong", Node: "n1", NICs: at("10.0.0.50")}, strong),
		castPod(cluster.PodSpec{Namespace: "attackers", Name: "weak", Node: "n1"}, none),
		castPod(cluster.PodSpec{Namespace: "attackers", Name: "near", Node: "n1", App: "catcher"}, common),
		castPod(cluster.PodSpec{Namespace: "attackers", Name: "far", Node: "n2"}, common),
		castPod(cluster.PodSpec{Namespace: "victims", Name: "near", Node: "n1", NICs: at("10.0.0.60"), App: "victim"}, common),
		castPod(cluster.PodSpec{Namespace: "victims", Name: "far", Node: "n2", NICs: at("10.0.0.61"), App: "victim"}, common),
		castPod(cluster.PodSpec{Namespace: "plain", Name: "strong", Node: "n1"}, strong),
		castPod(cluster.PodSpec{Namespace: "plain", Name: "weak", Node: "n1"}, none),
		castPod(cluster.PodSpec{Namespace: "plain", Name: "far", Node: "n2", App: "plain"}, common),
	}
}

// enter brings the cast onto the stage.
func enter(ctx context.Context) error {
	cmd := env.Program(ctx, "kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-")
	cmd.Stdin = strings.NewReader(stage)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply the stage: %w\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(ctx, 6*time.Minute)
	defer cancel()
	for _, p := range cast() {
		for {
			// A sandbox that was kept has it already; a namespace's ServiceAccount comes some time after it.
			_, err := env.Clients.Kube.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
			if err == nil || apierrors.IsAlreadyExists(err) {
				break
			}
			if err := pause(ctx, err); err != nil {
				return err
			}
		}
	}
	for _, p := range cast() {
		for {
			now, err := env.Clients.Kube.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
			if err == nil && cluster.IsReady(now) {
				break
			}
			if err == nil {
				err = fmt.Errorf("%s/%s is %s, last Event %s", p.Namespace, p.Name, now.Status.Phase, env.Clients.LastEvent(ctx, now))
			}
			if err := pause(ctx, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// pause waits a moment before somebody looks again, and returns why in vain when ctx has ended.
func pause(ctx context.Context, why error) error {
	select {
	case <-ctx.Done():
		return errors.Join(why, ctx.Err())
	case <-time.After(cluster.LookEvery):
		return nil
	}
}

// member is a pod of the cast: "namespace/name".
func member(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	ns, pod, _ := strings.Cut(name, "/")
	p, err := env.Clients.Kube.CoreV1().Pods(ns).Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mallory is a client of the user who may edit the namespace attackers.
func mallory(t *testing.T) kubernetes.Interface {
	t.Helper()
	return env.As(t, "mallory")
}
