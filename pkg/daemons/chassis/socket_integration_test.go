//go:build integration

package chassis_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/atoll-net/atoll/pkg/daemons/chassis"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// restoredWhenSentAway: an agent of an older version sends ovn-controller away from its socket for as long as no switch answers
// there. The next switch has its flows nevertheless, and sends ovn-controller back. Where the agent bounds nothing it has not:
// ovn-controller may come before the flows do.
func restoredWhenSentAway(t *testing.T, w *world) {
	const remote, words = "external_ids:" + vswitch.KeyBridgeRemote, "flows are restored"
	replaced := func(between ...string) (restored bool, now string) {
		t.Helper()
		if err := w.one.stop(t, chassis.PartSwitch, syscall.SIGTERM); err != nil {
			t.Fatalf("ovs-vswitchd ends with %v", err)
		}
		if _, err := w.one.VSCtl(t.Context(), append([]string{"--no-wait"}, between...)...); err != nil {
			t.Fatal(err)
		}
		before := strings.Count(w.one.words(chassis.PartSwitch), words)
		w.one.start(t, chassis.PartSwitch)
		w.one.serves(t, chassis.PartSwitch)
		eventually(t, "ovs-vswitchd goes by its flows", func() error {
			config, err := w.one.VSCtl(t.Context(), "--no-wait", "get", "Open_vSwitch", ".", "other_config")
			if err == nil && strings.Contains(config, vswitch.KeyRestoreWait) {
				err = errors.New("it waits for them")
			}
			return err
		})
		now, err := w.one.VSCtl(t.Context(), "--no-wait", "--if-exists", "get", "Open_vSwitch", ".", remote)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(w.one.words(chassis.PartSwitch), words) > before, strings.Trim(now, `"`)
	}
	away := []string{"remove", "Open_vSwitch", ".", "external_ids", vswitch.KeyBridgeRemote}
	if restored, now := replaced(away...); !restored || now != "unix:br-int.controller" {
		t.Errorf("sent away: flows restored %t, ovn-controller comes by %q", restored, now)
	}
	if restored, now := replaced(append(away, "--", "del-controller", "br-int")...); restored || now != "" {
		t.Errorf("without the agent's socket: flows restored %t, ovn-controller comes by %q", restored, now)
	}
	w.one.door(t)
	w.reaches(t)
}
