package world

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// What the agents of other nodes say counts as infrastructure, and their tunnels are closed; what the API lists as a node's stays
// open to direct access. Who says nothing any more takes it back.
func TestReportsAreInfrastructure(t *testing.T) {
	t.Parallel()
	single := func(text string) netip.Prefix { a := netip.MustParseAddr(text); return netip.PrefixFrom(a, a.BitLen()) }
	storage, tunnel, shown := single("198.51.100.2"), single("198.51.100.9"), single("192.0.2.2")
	w := testWorld()
	judged := func() (infra, closed []netip.Prefix) {
		spec, err := w.Porthole(uidOf("red"))
		if err != nil {
			t.Fatal(err)
		}
		return spec.Cluster.Infra, spec.Cluster.Closed
	}
	if infra, _ := judged(); slices.Contains(infra, storage) {
		t.Fatal("an address that nobody has told of is known")
	}
	w.SetReport(&model.NodeReport{
		Node: "n2", Addresses: []netip.Addr{shown.Addr(), storage.Addr(), tunnel.Addr()}, Tunnels: []netip.Addr{tunnel.Addr(), shown.Addr()},
	})
	infra, closed := judged()
	for _, p := range []netip.Prefix{storage, tunnel, shown} {
		if !slices.Contains(infra, p) {
			t.Errorf("%s is no infrastructure", p)
		}
	}
	if !slices.Contains(closed, tunnel) || slices.Contains(closed, storage) || slices.Contains(closed, shown) {
		t.Errorf("closed are %v, want %s of these", closed, tunnel)
	}
	w.DropReport("n2")
	if infra, closed := judged(); slices.Contains(infra, storage) || slices.Contains(closed, tunnel) {
		t.Error("a report that has gone counts")
	}
}
