//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/test/demo/ready"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/wait"
)

// TestReboot takes the power of a node away and gives it back: its pods come back under their old names and addresses,
// nothing of before is left on it, and nobody elsewhere notices.
func TestReboot(t *testing.T) {
	const node = "n2"
	env.checkMatrix(t, recoverWithin) // and with it, all is written that will be
	rows := env.settled(t)
	pods := examplePods(t)
	before := wiring(t, node)
	if err := env.Box.RebootNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	// The kubelet reports its pods anew: until then the API shows them as they were.
	cluster.Eventually(t, recoverWithin, "the pods of "+node+" started anew", func(context.Context) error {
		for uid, now := range examplePods(t) {
			if strings.Contains(pods[uid], " on "+node+",") && now == pods[uid] {
				return fmt.Errorf("%s", now)
			}
		}
		return nil
	})
	if err := env.Clients.Wait(wait.Context(t, recoverWithin), []string{"red", "blue"}, []string{"red", "blue"},
		func(ready.Report) {}); err != nil {
		t.Fatal(err)
	}
	env.checkMatrix(t, recoverWithin)
	env.waitRows(t, cluster.Patience, rows)
	for uid, was := range pods {
		now, there := examplePods(t)[uid]
		if !there || (now != was && !strings.Contains(was, " on "+node+",")) {
			t.Errorf("pod %s, before the reboot: %s; after: %q", uid, was, now)
		}
	}
	// The names of links follow the runtime's sandboxes, which are new.
	cluster.Eventually(t, cluster.Patience, "as many links and ports as before", func(ctx context.Context) error {
		now, err := wiringOf(ctx, node)
		if err == nil && len(now) != len(before) {
			err = fmt.Errorf("difference (-before +now):\n%s", cmp.Diff(before, now))
		}
		return err
	})
	env.checkNodes(t)
	checkFaces(t, exampleNow(t))
	env.checkReach(t, recoverWithin)
}

// TestNodeOff: a node that is off is off, and up starts it again.
func TestNodeOff(t *testing.T) {
	const node = "n3"
	start := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := env.Box.StartNode(ctx, node); err != nil {
			t.Errorf("start %s again: %v", node, err)
		}
	}
	t.Cleanup(start)
	for range 2 { // the second time there is nothing to do
		if err := env.Box.StopNode(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	if daemons, err := env.Box.Daemons(t.Context(), node); err == nil {
		t.Errorf("daemons of %s are %+v", node, daemons)
	}
	left, err := sandbox.Leftovers(env.Options)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range left {
		if strings.HasSuffix(line, "-"+node) || strings.Contains(line, "/"+node+"/") || strings.HasSuffix(line, "/"+node) {
			t.Errorf("%s is off and has left %s", node, line)
		}
	}
	if out, err := env.Program(t.Context(), "up", "--name="+env.Options.Name, "--overlay="+env.Options.Overlay, "--bin="+env.Options.Bin,
		"--source="+env.Options.Source).CombinedOutput(); err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	for _, d := range mustDaemons(t, node) {
		if !d.Ready {
			t.Errorf("%s of %s is not ready: %s", d.Name, node, d.Problem)
		}
	}
	env.checkMatrix(t, recoverWithin)
	env.checkNodes(t)
	checkFaces(t, exampleNow(t))
}

func mustDaemons(t *testing.T, place string) []sandbox.Daemon {
	t.Helper()
	daemons, err := env.Box.Daemons(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	return daemons
}
