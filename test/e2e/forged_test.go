//go:build e2e

package e2e

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// TestForgedSource: frames with another's address do not leave the port, whether they are written by the pod or
// the address was put on its interface.
func TestForgedSource(t *testing.T) {
	t.Parallel()
	env.Network(t, "masks", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, "masks", "masks")
	pods := env.WaitReady(t,
		env.Pod(t, cluster.PodSpec{Namespace: "masks", Name: "mallory", Node: "n2"}),
		env.Pod(t, cluster.PodSpec{Namespace: "masks", Name: "near", Node: "n2"}),
		env.Pod(t, cluster.PodSpec{Namespace: "masks", Name: "far", Node: "n3"}),
	)
	mallory, targets := pods[0], pods[1:]
	own := cluster.AttachmentOf(t, mallory)
	for _, target := range targets {
		victim := cluster.AttachmentOf(t, target)
		// The neighbour must be known to both before silence means anything.
		env.Reach(t, mallory, target)
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
				token := cluster.NewToken(t)
				env.Forge(t, mallory, token, "-source", test.source, "-source-mac", test.mac,
					"-target", victim.Addresses[0].Addr().String(), "-target-mac", victim.MAC)
				if test.arrives {
					cluster.Eventually(t, cluster.Patience, "the honest frame", func(ctx context.Context) error { return env.Saw(ctx, target, token) })
					return
				}
				// Frames of one port keep their order: once a later honest probe has arrived, a forged one would have.
				env.Reach(t, mallory, target)
				if err := env.Saw(t.Context(), target, token); err == nil {
					t.Error("the forged frame arrived")
				} else if !errors.Is(err, cluster.ErrUnseen) {
					t.Error(err)
				}
			})
		}
	}

	t.Run("an address put on the interface", func(t *testing.T) {
		// Only the node's administrator can; a privileged pod could too.
		pid := env.HostPID(t, mallory)
		inPod := []string{"nsenter", "--target", pid, "--net"}
		ip := func(args ...string) {
			t.Helper()
			if out, err := env.Box.Exec(t.Context(), "n2", append(append(inPod, "ip"), args...)...); err != nil {
				t.Fatalf("ip %q: %v\n%s", args, err, out)
			}
		}
		// As the preferred source of everything: the pod's own address is gone.
		ip("address", "flush", "dev", "eth0", "scope", "global")
		ip("address", "add", "10.0.0.200/24", "dev", "eth0")
		token := env.Probe(t, mallory, targets[0])
		if token.Answered {
			t.Error("a pod with another address was answered")
		}
		if err := env.Saw(t.Context(), targets[0], token.Token); !errors.Is(err, cluster.ErrUnseen) {
			t.Errorf("its packets arrived (%v)", err)
		}
	})
}

// TestForgedTarget: a frame addressed by hand to a pod of another Network does not get there, neither straight nor by
// way of the router.
func TestForgedTarget(t *testing.T) {
	t.Parallel()
	list, err := env.Clients.Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: selector})
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
	own := cluster.AttachmentOf(t, red)
	source := own.Addresses[0].Addr().String()
	crossing, honest := cluster.NewToken(t), cluster.NewToken(t)
	for _, p := range blue {
		victim := cluster.AttachmentOf(t, p)
		for _, targetMAC := range []string{
			victim.MAC, env.RouterMAC(t, "red/front:gateway"), env.RouterMAC(t, "blue/front:gateway"), "ff:ff:ff:ff:ff:ff",
		} {
			env.Forge(t, red, crossing, "-source", source, "-target", victim.Addresses[0].Addr().String(), "-target-mac", targetMAC)
		}
	}
	// The same way of sending works where it may.
	friend := cluster.AttachmentOf(t, near)
	env.Forge(t, red, honest, "-source", source, "-target", friend.Addresses[0].Addr().String(), "-target-mac", friend.MAC)
	cluster.Eventually(t, cluster.Patience, "the honest frame", func(ctx context.Context) error { return env.Saw(ctx, near, honest) })
	for _, p := range blue {
		if err := env.Saw(t.Context(), p, crossing); err == nil {
			t.Errorf("%s/%s saw a frame of red", p.Namespace, p.Name)
		} else if !errors.Is(err, cluster.ErrUnseen) {
			t.Error(err)
		}
	}
}
