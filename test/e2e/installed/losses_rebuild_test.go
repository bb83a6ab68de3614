//go:build e2e

package installed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// rebuildEvent is the row of a rebuild: every member of both databases loses its file, and its process; and then the operator
// does what docs/how-to/restore-the-databases.md says.
func rebuildEvent() event {
	return event{name: "both databases lost and rebuilt", happens: rebuilt, judge: func(t *testing.T, losses []loss) {
		t.Helper()
		for _, l := range losses {
			for _, f := range l.Failures {
				t.Logf("%s: asked at %s, %s: %s", l.name, f.Asked.Format("15:04:05.000"), f.Took, f.Error)
			}
		}
	}}
}

// databases is where a member has its files; lost is where they are moved.
const (
	databases = "/var/lib/atoll/ovn"
	lost      = databases + "/lost"
)

func rebuilt(t *testing.T, s scene) {
	t.Helper()
	const selector = "app.kubernetes.io/name=atoll-ovn-central"
	members, err := env.Clients.Kube.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil || len(members.Items) != len(env.Box.Nodes()) {
		t.Fatalf("%d members, %v", len(members.Items), err)
	}
	for _, p := range members.Items {
		if out, err := env.Box.Exec(t.Context(), p.Spec.NodeName, "sh", "-c",
			fmt.Sprintf("mkdir -p %s && mv %s/ovn?b_db.db* %[1]s", lost, databases)); err != nil {
			t.Fatalf("take the files of %s away: %v\n%s", p.Spec.NodeName, err, out)
		}
		for _, container := range []string{"nb", "sb"} {
			if out, err := env.Box.Exec(t.Context(), p.Spec.NodeName, "ctr", "--namespace", "k8s.io", "task", "kill",
				"--signal", "SIGKILL", cluster.ContainerOf(&p, container)); err != nil {
				t.Fatalf("end %s on %s: %v\n%s", container, p.Spec.NodeName, err, out)
			}
		}
	}
	// Without --yes the command says what it would do, as soon as every member has told that it has lost its file.
	cluster.Eventually(t, cluster.ReadyWithin, "every member has lost its files", func(ctx context.Context) error {
		var told bytes.Buffer
		if err := env.Atoll(ctx, &told, "ovn", "rebuild"); err == nil {
			return errors.New("it did something without being told to")
		}
		for _, kind := range []string{"nb", "sb"} {
			if !strings.Contains(told.String(), kind+": each member has lost its file") {
				return fmt.Errorf("%s is not lost: %s", kind, told.String())
			}
		}
		return nil
	})
	waits := env.Pod(t, cluster.PodSpec{Namespace: "red", Name: "meanwhile", Node: s.server.Spec.NodeName})
	cluster.Eventually(t, cluster.ReadyWithin, "the new pod has a node, and waits", func(ctx context.Context) error {
		now, err := env.Clients.Kube.CoreV1().Pods(waits.Namespace).Get(ctx, waits.Name, metav1.GetOptions{})
		if err == nil && now.Spec.NodeName == "" {
			err = errors.New("it has no node")
		}
		return err
	})
	if now := env.Get(t, waits); now.Status.Phase != corev1.PodPending {
		t.Errorf("a pod starts without the databases: it is %s", now.Status.Phase)
	}
	var told bytes.Buffer
	if err := env.Atoll(t.Context(), io.MultiWriter(&told, os.Stdout), "ovn", "rebuild", "--yes"); err != nil {
		t.Fatalf("rebuild: %v\n%s", err, told.String())
	}
	env.Reach(t, s.client, env.WaitReady(t, waits)[0])
	// Nodes move to the new database one after another.
	for _, daemonset := range []string{"atoll-ovn-central", "atoll-ovn-node"} {
		if out, err := kubectl(t.Context(), "rollout", "status", "-n", system, "daemonset/"+daemonset, "--timeout=3m"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	env.DeletePod(t, waits)
	env.WaitGone(t, waits)
}
