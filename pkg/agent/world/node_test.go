package world

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// A Node that has gone counts for as long as its pods may go on, with what its agent said, and nothing changes when it is
// registered again. Its addresses are no tunnels' alone meanwhile: whoever has direct access reaches them.
func TestANodeThatHasGoneCountsForAWhile(t *testing.T) {
	t.Parallel()
	single := func(text string) netip.Prefix { a := netip.MustParseAddr(text); return netip.PrefixFrom(a, a.BitLen()) }
	host, storage, tunnel := single("192.0.2.9"), single("198.51.100.9"), single("203.0.113.9")
	start := time.Unix(1000, 0)
	w := testWorld()
	node := &model.Node{Name: "n9", UID: "uid-n9", Addresses: []netip.Addr{host.Addr()}}
	w.SetNode(node)
	w.SetReport(&model.NodeReport{Node: "n9", Addresses: []netip.Addr{storage.Addr()}, Tunnels: []netip.Addr{host.Addr(), tunnel.Addr()}})
	counts := func(when string, want bool) {
		t.Helper()
		spec, err := w.Porthole(uidOf("red"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []netip.Prefix{host, storage, tunnel} {
			if got := slices.Contains(spec.Cluster.Infra, p); got != want {
				t.Errorf("%s: %s is infrastructure: %t, want %t", when, p, got, want)
			}
		}
		if got := slices.Contains(spec.Cluster.Closed, tunnel); got != want || slices.Contains(spec.Cluster.Closed, host) {
			t.Errorf("%s: closed are %v", when, spec.Cluster.Closed)
		}
	}
	quiet := func(when string) {
		t.Helper()
		if len(w.changed) > 0 {
			<-w.changed
			t.Errorf("%s: that is news", when)
		}
	}
	counts("it is there", true)
	<-w.changed
	w.DropNode("n9", start)
	w.DropReport("n9")
	counts("it has gone", true)
	w.Expire(start.Add(model.KeepNode - time.Second))
	counts("it has gone a while ago", true)
	quiet("it has gone")

	again := *node
	again.UID = "uid-again"
	w.SetNode(&again)
	w.SetReport(&model.NodeReport{
		Node: "n9", NodeUID: "uid-again", Addresses: []netip.Addr{storage.Addr()}, Tunnels: []netip.Addr{host.Addr(), tunnel.Addr()},
	})
	<-w.changed
	w.Expire(start.Add(2 * model.KeepNode))
	counts("it is there again", true)
	quiet("it is there again")

	w.DropNode("n9", start)
	w.DropReport("n9")
	w.DropNode("n9", start.Add(time.Minute))
	w.Expire(start.Add(model.KeepNode))
	counts("it does not come again", false)
}

// A node that has gone does not take from this one what both were given.
func TestANodeThatHasGoneTakesNothing(t *testing.T) {
	t.Parallel()
	for _, goes := range []bool{false, true} {
		w := testWorld()
		w.SetNode(&model.Node{Name: "n9", Assigned: &model.NodeNetwork{Faces: []netip.Prefix{netip.MustParsePrefix("100.64.1.0/24")}}})
		if goes {
			w.DropNode("n9", time.Unix(1000, 0))
		}
		w.SetNode(&model.Node{Name: "n1"})
		if lacks := w.Lacks(guestNIC("red", "10.0.0.5", "100.64.1.5")); (lacks == nil) != goes {
			t.Errorf("the other has gone: %t; the pod lacks %v", goes, lacks)
		}
	}
}

// Nothing is kept of a node that is shut out, whether it is listed before its Node goes or afterwards, nor while nobody knows who is.
func TestNothingIsKeptOfANodeThatIsShutOut(t *testing.T) {
	t.Parallel()
	host, tunnel := netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("203.0.113.77")
	list, gone := &model.ShutOut{Nodes: []string{"n7"}}, time.Unix(1000, 0)
	goes := func(w *World) {
		w.DropNode("n7", gone)
		w.DropReport("n7")
	}
	for name, c := range map[string]struct {
		does func(*World)
		kept bool
	}{
		"it is listed before":     {func(w *World) { w.SetShutOut(list); goes(w) }, false},
		"it is listed afterwards": {func(w *World) { goes(w); w.SetShutOut(list) }, false},
		// Its agent has written that the report belongs to nobody, or has a finalizer.
		"its report stays, it is listed before":     {func(w *World) { w.SetShutOut(list); w.DropNode("n7", gone) }, false},
		"its report stays, it is listed afterwards": {func(w *World) { w.DropNode("n7", gone); w.SetShutOut(list) }, false},
		"its report stays for a while":              {func(w *World) { w.DropNode("n7", gone) }, true},
		"its report stays for long":                 {func(w *World) { w.DropNode("n7", gone); w.Expire(gone.Add(model.KeepNode)) }, false},
		"another one is listed":                     {func(w *World) { w.SetShutOut(&model.ShutOut{Nodes: []string{"n8"}}); goes(w) }, true},
		"there is no list":                          {goes, true},
		"the list has not been read yet":            {func(w *World) { w.shutOut = nil; goes(w) }, false},
	} {
		w := testWorld()
		w.SetNode(&model.Node{Name: "n7", Addresses: []netip.Addr{host}})
		w.SetReport(&model.NodeReport{Node: "n7", Tunnels: []netip.Addr{host, tunnel}})
		c.does(w)
		spec, err := w.Porthole(uidOf("red"))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []netip.Addr{host, tunnel} {
			if got := slices.Contains(spec.Cluster.Infra, netip.PrefixFrom(a, 32)); got != c.kept {
				t.Errorf("%s: %s is infrastructure: %t, want %t", name, a, got, c.kept)
			}
		}
	}
}

// TestWhoIsShutOut: a node is shut out when the list says so, and while nobody knows the list none is.
func TestWhoIsShutOut(t *testing.T) {
	t.Parallel()
	w := New("n1")
	if w.ShutOut("n7") {
		t.Error("a node is shut out before the list was read")
	}
	w.SetShutOut(&model.ShutOut{Nodes: []string{"n7"}})
	if !w.ShutOut("n7") || w.ShutOut("n8") {
		t.Error("the list is not heeded")
	}
	if w.SetShutOut(&model.ShutOut{}); w.ShutOut("n7") {
		t.Error("a node that was admitted is shut out")
	}
}
