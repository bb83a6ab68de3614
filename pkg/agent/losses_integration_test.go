//go:build integration

package agent

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/wait"
)

// TestWhatTheNodeLosesIsMended: somebody removes what portholes need, or the kernel removes it along with something else. It is
// mended without a sweep; and when nobody follows what is lost, it is not.
func TestWhatTheNodeLosesIsMended(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	red := n.addGuest(a, "red", "one", 5, 5)
	serveName(t, red.inside, ":80", "red")
	face, want := "100.64.1.5:80", "red sees "+ownNode
	wantAnswer(t, here, face, want)
	answers := func(context.Context) error {
		if answer, err := ask(here, face); err != nil || answer != want {
			return fmt.Errorf("%s answers %q (error %w), want %q", face, answer, err, want)
		}
		return nil
	}
	link, err := netlink.LinkByName(model.NodeInterface)
	must(t, err)
	losses := []struct {
		what string
		lose func()
	}{
		{"the node's address, with which routes go", func() { must(t, netlink.AddrDel(link, addressOf(t, "10.128.1.1/16"))) }},
		{"all of a link's addresses", func() { n.run("ip", "address", "flush", "dev", model.NodeInterface) }},
		{"a face's route", func() { n.run("ip", "route", "del", "100.64.1.5") }},
		{"the link to the porthole, for a moment", func() {
			name := n.run("sh", "-c", "ip -o link | grep -o 'atollh-[a-z0-9]*' | head -n 1 | tr -d '\n'")
			n.run("ip", "link", "set", name, "down")
			n.run("ip", "link", "set", name, "up")
		}},
		{"all rules", func() { n.nft("flush ruleset") }},
	}
	for _, loss := range losses {
		loss.lose()
		if answers(t.Context()) == nil {
			t.Errorf("%s: it is lost, and nothing is missing: this test shows nothing", loss.what)
		}
		if sound, err := a.keeper.Sound(); err != nil || sound {
			t.Errorf("%s: it is not seen that it is lost (%v)", loss.what, err)
		}
		must(t, a.sweep(t.Context()))
		must(t, answers(t.Context()))
		if sound, err := a.keeper.Sound(); err != nil || !sound {
			t.Errorf("%s: after a sweep something is missing still (%v)", loss.what, err)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	go func() { followed <- a.portholes.FollowLosses(ctx, func() bool { return true }) }()
	defer func() {
		stop()
		must(t, <-followed)
	}()
	for _, loss := range losses {
		loss.lose()
		wait.Eventually(t, wait.Patience, loss.what, answers)
	}
}

func addressOf(t *testing.T, text string) *netlink.Addr {
	t.Helper()
	a, err := netlink.ParseAddr(text)
	must(t, err)
	return a
}

// TestANodeThatLosesItsNode: the Node is deleted and made anew, or loses its annotation, while its pods go on. They lose nothing;
// and an address that the controller gives the node next is that of its routes at once.
func TestANodeThatLosesItsNode(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	red := n.addGuest(a, "red", "one", 5, 5)
	serveName(t, red.inside, ":80", "red")
	check := func(what string) {
		t.Helper()
		for range 2 {
			must(t, a.portholes.Refresh(t.Context(), portholes.Trusting))
			if answer, err := ask(here, "100.64.1.5:80"); err != nil || answer != "red sees "+ownNode {
				t.Errorf("%s: %q, %v", what, answer, err)
			}
			// A sweep in the meantime removes nothing.
			must(t, a.sweep(t.Context()))
		}
	}
	a.world.DropNode(testNode, time.Time{})
	check("the Node has gone")
	bare := givenTo(testNode, 1)
	bare.UID, bare.Assigned = "uid-again", nil
	a.world.SetNode(bare)
	check("it is there again, and has nothing yet")
	moved := givenTo(testNode, 1)
	moved.UID, moved.Assigned.NodeUID = "uid-again", "uid-again"
	moved.Assigned.Addresses = []netip.Prefix{netip.MustParsePrefix("10.128.1.9/16"), netip.MustParsePrefix("fd00:128::1:9/64")}
	a.world.SetNode(moved)
	must(t, a.portholes.Refresh(t.Context(), portholes.Trusting))
	if answer, err := ask(here, "100.64.1.5:80"); err != nil || answer != "red sees "+ownNode {
		t.Errorf("the node has another address: %q, %v", answer, err)
	}
}
