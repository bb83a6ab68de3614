//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
	"github.com/atoll-net/atoll/test/matrix"
)

// TestForgedSource: frames with another's address do not leave the port, whether they are written by the pod or
// the address was put on its interface.
func TestForgedSource(t *testing.T) {
	t.Parallel()
	env.network(t, "masks", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{subnet("a", "10.0.0.0/24")}})
	env.namespace(t, "masks", "masks")
	pods := env.waitReady(t,
		env.pod(t, podSpec{namespace: "masks", name: "mallory", node: "n2"}),
		env.pod(t, podSpec{namespace: "masks", name: "near", node: "n2"}),
		env.pod(t, podSpec{namespace: "masks", name: "far", node: "n3"}),
	)
	mallory, targets := pods[0], pods[1:]
	own := attachmentOf(t, mallory)
	for _, target := range targets {
		victim := attachmentOf(t, target)
		// The neighbour must be known to both before silence means anything.
		reach(t, mallory, target)
		for _, test := range []struct {
			name, mac, source string
			arrives           bool
		}{
			{"its own", own.MAC, own.Addresses[0].Addr().String(), true},
			{"another address", own.MAC, "10.0.0.200", false},
			{"the gateway's address", own.MAC, "10.0.0.1", false},
			{"another MAC", "0a:58:0a:00:00:c8", own.Addresses[0].Addr().String(), false},
			{"another MAC and address", "0a:58:0a:00:00:c8", "10.0.0.200", false},
		} {
			t.Run(target.Name+" gets "+test.name, func(t *testing.T) {
				token := newToken(t)
				forge(t, mallory, token, "-source", test.source, "-source-mac", test.mac,
					"-target", victim.Addresses[0].Addr().String(), "-target-mac", victim.MAC)
				if test.arrives {
					eventually(t, patience, "the honest frame", func(ctx context.Context) error { return saw(ctx, target, token) })
					return
				}
				// Frames of one port keep their order: once a later honest probe has arrived, a forged one would have.
				reach(t, mallory, target)
				if err := saw(t.Context(), target, token); err == nil {
					t.Error("the forged frame arrived")
				} else if !errors.Is(err, errUnseen) {
					t.Error(err)
				}
			})
		}
	}

	t.Run("an address put on the interface", func(t *testing.T) {
		// Only the node's administrator can; a privileged pod could too.
		pid := hostPID(t, mallory)
		inPod := []string{"nsenter", "--target", pid, "--net"}
		ip := func(args ...string) {
			t.Helper()
			if out, err := env.box.Exec(t.Context(), "n2", append(append(inPod, "ip"), args...)...); err != nil {
				t.Fatalf("ip %q: %v\n%s", args, err, out)
			}
		}
		// As the preferred source of everything: the pod's own address is gone.
		ip("address", "flush", "dev", "eth0", "scope", "global")
		ip("address", "add", "10.0.0.200/24", "dev", "eth0")
		token := probe(t, mallory, targets[0])
		if token.answered {
			t.Error("a pod with another address was answered")
		}
		if err := saw(t.Context(), targets[0], token.token); !errors.Is(err, errUnseen) {
			t.Errorf("its packets arrived (%v)", err)
		}
	})
}

// TestForgedTarget: a frame addressed by hand to a pod of another Network does not get there, neither straight nor by
// way of the router.
func TestForgedTarget(t *testing.T) {
	t.Parallel()
	list, err := env.clients.Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	var red, near *corev1.Pod
	var blue []*corev1.Pod
	for _, p := range list.Items {
		switch {
		case p.Namespace == "blue":
			blue = append(blue, &p)
		case p.Labels["app"] == "same":
			red = &p
		case p.Labels["app"] == "web":
			near = &p
		}
	}
	own := attachmentOf(t, red)
	source := own.Addresses[0].Addr().String()
	crossing, honest := newToken(t), newToken(t)
	for _, p := range blue {
		victim := attachmentOf(t, p)
		for _, targetMAC := range []string{victim.MAC, routerMAC(t, "red/front:gateway"), routerMAC(t, "blue/front:gateway"), "ff:ff:ff:ff:ff:ff"} {
			forge(t, red, crossing, "-source", source, "-target", victim.Addresses[0].Addr().String(), "-target-mac", targetMAC)
		}
	}
	// The same way of sending works where it may.
	friend := attachmentOf(t, near)
	forge(t, red, honest, "-source", source, "-target", friend.Addresses[0].Addr().String(), "-target-mac", friend.MAC)
	eventually(t, patience, "the honest frame", func(ctx context.Context) error { return saw(ctx, near, honest) })
	for _, p := range blue {
		if err := saw(t.Context(), p, crossing); err == nil {
			t.Errorf("%s/%s saw a frame of red", p.Namespace, p.Name)
		} else if !errors.Is(err, errUnseen) {
			t.Error(err)
		}
	}
}

// routerMAC is the MAC address of a router's port.
func routerMAC(t *testing.T, port string) string {
	t.Helper()
	for _, row := range env.nb.rows(t) {
		if p, ok := row.(*nb.LogicalRouterPort); ok && p.Name == port {
			return p.MAC
		}
	}
	t.Fatalf("there is no router port %s", port)
	return ""
}

// forge lets a pod send a frame written by hand that carries a token.
func forge(t *testing.T, from *corev1.Pod, token string, args ...string) {
	t.Helper()
	command := append([]string{matrix.Program, "forge", "-token", token}, args...)
	if _, err := env.exec(t.Context(), from.Namespace, from.Name, nil, command...); err != nil {
		t.Fatal(err)
	}
}

func newToken(t *testing.T) string {
	t.Helper()
	token, err := matrix.NewToken()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

var errUnseen = errors.New("not seen")

// saw returns errUnseen unless a pod has recorded a token.
func saw(ctx context.Context, p *corev1.Pod, token string) error {
	seen, err := matrix.Seen(ctx, env.exec, p.Namespace, p.Name, token)
	if err == nil && len(seen) == 0 {
		err = errUnseen
	}
	return err
}

// attachmentOf is the first interface of a pod as the controller decided it.
func attachmentOf(t *testing.T, p *corev1.Pod) model.Attachment {
	t.Helper()
	var attachments []model.Attachment
	if err := json.Unmarshal([]byte(p.Annotations[model.AnnotationAttachments]), &attachments); err != nil || len(attachments) == 0 {
		t.Fatalf("%s/%s has attachments %q: %v", p.Namespace, p.Name, p.Annotations[model.AnnotationAttachments], err)
	}
	return attachments[0]
}

// hostPID is the process id of a pod's container as its node counts.
func hostPID(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
	out, err := env.box.Exec(t.Context(), p.Spec.NodeName, "ctr", "--namespace", "k8s.io", "task", "ls")
	if err != nil {
		t.Fatalf("list containers of %s: %v\n%s", p.Spec.NodeName, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == id {
			return fields[1]
		}
	}
	t.Fatalf("container %s is not on %s:\n%s", id, p.Spec.NodeName, out)
	return ""
}
