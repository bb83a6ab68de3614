//go:build integration

package agent

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/wait"
)

// TestAddWaitsForTheFlowsOfItsNetwork: a port that is marked as installed is not enough, since ovn-controller marks the
// first one of a Network before it has the Network's flows. Here nobody has any.
func TestAddWaitsForTheFlowsOfItsNetwork(t *testing.T) {
	n := newNode(t)
	n.playController()
	a := n.agent()
	self := givenTo(testNode, 1)
	a.seesCluster([]netip.AddrPort{netip.MustParseAddrPort(testEncapIP + ":6443")}, nil, vpc("red"))
	a.world.SetNode(self)
	t.Cleanup(func() { n.clearPortholes(a) })
	before := n.ours()
	p := newGuest(t, a, "red", "one", 5, 5)
	ctx := wait.Context(t, 2*time.Second)
	_, err := a.Add(ctx, p.request)
	if err == nil || !strings.Contains(err.Error(), "wait for the flows of Network red") {
		t.Errorf("ADD: %v", err)
	}
	if after := n.ours(); !slices.Equal(before, after) {
		t.Errorf("left: %v\nbefore: %v", after, before)
	}
}
