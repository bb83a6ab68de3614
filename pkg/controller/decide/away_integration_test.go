//go:build integration

package decide_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// within is how long it may take until those who wait are told why.
const within = 10 * time.Second

// TestTheDatabaseIsAway: Networks claim nothing while the database is away, those who wait are told what they wait for,
// by this controller and by one that starts meanwhile; and all is as before when it is back.
func TestTheDatabaseIsAway(t *testing.T) {
	central, c := ovn.Start(t, false), newCluster()
	labels := map[string]map[string]string{"red": {model.LabelNetwork: "red"}, "blue": {model.LabelNetwork: "blue"}}
	first := startEngine(t, c, central.NBAddress(), "one")
	twoNetworks(c)
	eventually(t, redFront, func() string { return ports(t, central, "red/front") })
	eventually(t, "Ready 3", func() string { s := c.status("red"); return fmt.Sprint(s.Phase, " ", s.Pods) })
	before := c.status("red")
	c.phases("red")

	// A blink is none of anybody's business.
	central.Kill("nb")
	if err := central.StartDatabase(t.Context(), "nb"); err != nil {
		t.Fatal(err)
	}
	c.setPod(pod("red", "web-3", ""))
	eventually(t, redFront+" red/web-3", func() string { return ports(t, central, "red/front") })
	if got := c.phases("red"); strings.ReplaceAll(got, "Ready", "") != strings.Repeat(" ", max(0, len(strings.Fields(got))-1)) {
		t.Errorf("a blink of the database was reported: %s", got)
	}

	central.Kill("nb")
	late := pod("red", "late", "")
	c.setPod(late)
	unknown := func() string {
		out := []string{string(c.status("red").Phase)}
		for _, kind := range []string{model.ConditionReady, model.ConditionPodsAttached} {
			for _, condition := range c.status("red").Conditions {
				if condition.Type == kind {
					out = append(out, fmt.Sprint(kind, " ", condition.Unknown, " ", condition.Reason))
				}
			}
		}
		for _, e := range c.eventsOf("red/late") {
			out = append(out, e.Reason)
		}
		return strings.Join(out, ", ")
	}
	want := "Unknown, Ready true DatabaseUnreachable, PodsAttached true DatabaseUnreachable, DatabaseUnreachable"
	wait.Eventually(t, within, "who waits is told why", becomes(want, unknown))
	if c.attachment(late.Key) == nil {
		t.Error("the pod's addresses are not decided while the database is away")
	}
	first.stop()
	c.mu.Lock()
	clear(c.statuses)
	c.mu.Unlock()
	c.replay(labels)
	startEngine(t, c, central.NBAddress(), "two")
	wait.Eventually(t, within, "who waits is told why", becomes(want, unknown))
	c.phases("red")

	if err := central.StartDatabase(t.Context(), "nb"); err != nil {
		t.Fatal(err)
	}
	eventually(t, strings.ReplaceAll(redFront+" red/web-3", "red/web-0", "red/late red/web-0"),
		func() string { return ports(t, central, "red/front") })
	eventually(t, "Ready 5", func() string { s := c.status("red"); return fmt.Sprint(s.Phase, " ", s.Pods) })
	if got := c.phases("red"); strings.Contains(got, string(model.Pending)) {
		t.Errorf("reported on the way back: %s", got)
	}
	if got, want := len(c.status("red").Conditions), len(before.Conditions); got != want {
		t.Errorf("%d conditions, %d before", got, want)
	}
}
