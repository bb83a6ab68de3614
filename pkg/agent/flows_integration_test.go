//go:build integration

package agent

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
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
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := a.Add(ctx, p.request)
	if err == nil || !strings.Contains(err.Error(), "wait for the flows of Network red") {
		t.Errorf("ADD: %v", err)
	}
	if after := n.ours(); !slices.Equal(before, after) {
		t.Errorf("left: %v\nbefore: %v", after, before)
	}
}
