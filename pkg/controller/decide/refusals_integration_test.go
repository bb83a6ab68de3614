//go:build integration

package decide_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/atoll-net/atoll/pkg/controller/engine"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// TestARefusedDeletionIsNotForgotten: the database cannot delete a row that somebody else refers to. Once it
// can, the row goes, and a successor of the same name gets its own.
func TestARefusedDeletionIsNotForgotten(t *testing.T) {
	central, c := ovn.Start(t, false), newCluster()
	startEngine(t, c, central.NBAddress(), "one")
	twoNetworks(c)
	eventually(t, redFront, func() string { return ports(t, central, "red/front") })
	eventually(t, "3", func() string { return fmt.Sprint(c.status("red").Pods) })
	for _, name := range []string{"red/web-0", "red/web-1"} {
		port := nbctl(t, central, "--bare", "--columns=_uuid", "find", "Logical_Switch_Port", "name="+name)
		nbctl(t, central, "--may-exist", "ls-add", "theirs", "--", "add", "Logical_Switch", "theirs", "ports", port)
	}
	c.deletePod(model.PodKey{Namespace: "red", Name: "web-0"})
	c.deletePod(model.PodKey{Namespace: "red", Name: "web-1"})
	successor := pod("red", "web-1", "")
	c.setPod(successor)
	eventually(t, "true", func() string {
		for _, e := range c.eventsOf("red/web-1") {
			if e.Reason == model.ReasonDatabaseRefused {
				return "true"
			}
		}
		return "false"
	})
	// Others go on meanwhile.
	c.setPod(pod("red", "late", ""))
	eventually(t, "red/late", func() string {
		return nbctl(t, central, "--bare", "--columns=name", "find", "Logical_Switch_Port", "name=red/late")
	})
	nbctl(t, central, "ls-del", "theirs")
	eventually(t, "red/front:router red/late red/web-1 red/web-2", func() string { return ports(t, central, "red/front") })
	eventually(t, successor.UID, func() string {
		return nbctl(t, central, "get", "Logical_Switch_Port", "red/web-1", "options:iface-id-ver")
	})
}

// TestADeposedControllerThatReconnectsWritesNothing: it must not take for granted what it was before.
func TestADeposedControllerThatReconnectsWritesNothing(t *testing.T) {
	central, c := ovn.Start(t, false), newCluster()
	old := startEngine(t, c, central.NBAddress(), "one")
	twoNetworks(c)
	eventually(t, redFront, func() string { return ports(t, central, "red/front") })
	nbctl(t, central, "set", "NB_Global", ".", "external_ids:atoll.dev/epoch=two")
	before := dump(t, central)
	central.Kill("nb")
	if err := central.StartDatabase(t.Context(), "nb"); err != nil {
		t.Fatal(err)
	}
	c.setPod(pod("red", "late", ""))
	select {
	case err := <-old.done:
		if !errors.Is(err, engine.ErrDeposed) {
			t.Errorf("the old controller ended with %v, want %v", err, engine.ErrDeposed)
		}
		old.done <- err
	case <-wait.Context(t, wait.Patience).Done():
		t.Fatal("the old controller goes on after another took over")
	}
	if got := dump(t, central); got != before {
		t.Errorf("the old controller wrote:\n%s\nwant:\n%s", got, before)
	}
	if epoch := nbctl(t, central, "get", "NB_Global", ".", "external_ids:atoll.dev/epoch"); epoch != "two" {
		t.Errorf("the epoch is %s, want two", epoch)
	}
}
