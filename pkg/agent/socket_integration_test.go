//go:build integration

package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// TestOVNControllerStaysWithItsSocket: while the switch is replaced no socket of its bridge answers, and then only the bridge's
// own. ovn-controller is not sent away for that: the next switch would do without the flows that the last one has saved. It is
// sent away from a socket that ovs-vswitchd refuses to open.
func TestOVNControllerStaysWithItsSocket(t *testing.T) {
	n := newNode(t)
	a := n.agent()
	a.throttle.rate = vswitch.LeastThrottle
	remote := func() string {
		t.Helper()
		return n.vsctl("--no-wait", "--if-exists", "get", "Open_vSwitch", ".", "external_ids:"+vswitch.KeyBridgeRemote)
	}
	stays := func(when string) {
		t.Helper()
		if got, want := remote(), `"`+vswitch.RemoteOf("br-int")+`"`; got != want {
			t.Errorf("%s ovn-controller is sent to %s, want %s", when, got, want)
		}
	}
	closed := func(when string) {
		t.Helper()
		if err := reachSocket(t.Context(), vswitch.Door(n.dir, "br-int")); err == nil {
			t.Errorf("%s the socket answers: this test shows nothing", when)
		}
		if err := a.keepThrottle(t.Context()); err == nil {
			t.Errorf("%s the agent is content", when)
		}
		stays(when)
	}
	must(t, a.keepThrottle(t.Context()))
	stays("at first")

	must(t, n.vswitchd.Process.Kill())
	_ = n.vswitchd.Wait()
	closed("without a switch")
	n.vsctl("--no-wait", "set", "Open_vSwitch", ".", "other_config:"+vswitch.KeyRestoreWait+"=true")
	n.startSwitch()
	n.awaitSocket("br-int.mgmt")
	closed("while the switch waits for its flows")
	n.vsctl("--no-wait", "remove", "Open_vSwitch", ".", "other_config", vswitch.KeyRestoreWait)
	must(t, a.keepThrottle(t.Context()))
	stays("with the new switch")

	// ovs-vswitchd opens no socket in a directory of another name.
	a.throttle.dir = filepath.Join(n.dir, "elsewhere")
	must(t, os.Mkdir(a.throttle.dir, 0o755))
	if err := a.keepThrottle(t.Context()); err == nil {
		t.Error("the agent is content with a socket that is not opened")
	}
	if got := remote(); got != "" {
		t.Errorf("ovn-controller is left at %s, where nobody answers", got)
	}
}
