//go:build integration

package porthole

import (
	"errors"
	"net"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/atoll-net/atoll/test/wait"
)

// TestNothingPassesBeforeTheRules: while the rules of a new porthole are written, all else is there, but the node's ends of its links
// are down; and they stay down when they cannot be.
func TestNothingPassesBeforeTheRules(t *testing.T) {
	k := keeper(t)
	must(t, k.EnsureHost(testHost()))
	spec, id := testSpec("u1"), IDOf("u1")
	must(t, k.Ensure(spec))
	want := settled(t, "u1")
	must(t, k.Remove(id))

	errNever := errors.New("the kernel refuses")
	for _, verdict := range []error{errNever, nil} {
		// The rules are written once they may be, or not at all.
		held := make(chan error)
		k.commit = func(rules *transaction) error {
			if err := <-held; err != nil {
				return err
			}
			return rules.commit()
		}
		ended := make(chan error, 1)
		go func() { ended <- k.Ensure(spec) }()
		wait.Until(t, wait.Patience, "the links do not wait for the rules", func() bool { return raisedInside(id) })
		for _, c := range spec.cables() {
			if isUp(t, c.outer) {
				t.Errorf("%s is up, and there are no rules", c.outer)
			}
		}
		held <- verdict
		if err := <-ended; !errors.Is(err, verdict) {
			t.Fatalf("made with %v, although the kernel said %v", err, verdict)
		}
		for _, c := range spec.cables() {
			if up := isUp(t, c.outer); up != (verdict == nil) {
				t.Errorf("the kernel said %v, and %s is up: %v", verdict, c.outer, up)
			}
		}
		k.commit = (*transaction).commit
		must(t, k.Ensure(spec))
		if diff := cmp.Diff(want, settled(t, "u1")); diff != "" {
			t.Errorf("after %v: -want +got:\n%s", verdict, diff)
		}
		must(t, k.Remove(id))
	}
}

// raisedInside reports whether both ends in a porthole are up, and the route out is there, which comes last.
func raisedInside(id ID) bool {
	netns, err := ns.GetNS(id.NetnsPath())
	if err != nil {
		return false
	}
	defer netns.Close()
	up := false
	err = inside(netns, func() error {
		link, err := netlink.LinkByName(hostSide)
		if err != nil {
			return err
		}
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{LinkIndex: link.Attrs().Index, Table: wayOut},
			netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
		up = link.Attrs().Flags&net.FlagUp != 0 && len(routes) > 0
		return err
	})
	return err == nil && up
}

func isUp(t *testing.T, name string) bool {
	t.Helper()
	link, err := netlink.LinkByName(name)
	must(t, err)
	return link.Attrs().Flags&net.FlagUp != 0
}
