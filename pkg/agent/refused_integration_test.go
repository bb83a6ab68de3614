//go:build integration

package agent

import (
	"strconv"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// A port that Open vSwitch cannot take is tried again, since the reason may pass, but not forever; and then its own
// words say why.
func TestPortThatOpenVSwitchRefuses(t *testing.T) {
	n := newNode(t)
	a := n.agent()
	port := vswitch.Port{Name: "atoll-nowhere", IfaceID: "red/one", Sandbox: "c1", Interface: "eth0"}
	must(t, a.ovs.Attach(t.Context(), port))
	before := n.configuration()
	err := a.ovs.Installed(t.Context(), port.Name)
	if err == nil || !strings.Contains(err.Error(), "No such device") {
		t.Errorf("error %v", err)
	}
	if tries := n.configuration() - before; tries != 2 {
		t.Errorf("tried %d times again, want 2", tries)
	}
}

// configuration is how often somebody has asked ovs-vswitchd to do what the database wants, other than by this question.
func (n *node) configuration() int {
	n.tb.Helper()
	count, err := strconv.Atoi(n.vsctl("--no-wait", "get", "Open_vSwitch", ".", "next_cfg"))
	must(n.tb, err)
	return count
}
