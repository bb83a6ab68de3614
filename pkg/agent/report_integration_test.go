//go:build integration

package agent

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/agent/world"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// TestReportedAddressesAreInfrastructure: another node has addresses, in a storage network and for tunnels, that neither its Node
// nor OVN names. Pods of a vpc Network and of the default one reach them until the node tells of them itself, and again when its
// report has gone.
func TestReportedAddressesAreInfrastructure(t *testing.T) {
	n, a, beyond := portholeNode(t, func(_, blue *model.Network) { blue.Infra = model.InfraDirect })
	const storage, storage6, tunnel = "203.0.113.9", "2001:db8:77::9", "203.0.113.10"
	must(t, beyond.inside(func() error { return addLeaf("storage0", storage, storage6, tunnel) }))
	// What Atoll has given a node is told of by the controller.
	must(t, beyond.inside(func() error { return addLeaf("atoll0", "203.0.113.11") }))
	flat := *a.world.Network(uidOf("default"))
	flat.Infra = model.InfraServices
	a.world.SetNetwork(&flat)
	must(t, a.portholes.Refresh(t.Context(), portholes.Trusting))
	red, blue, infra := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "blue", "one", 5, 6), n.addDefaultPod(a, "infra", 5)
	// Go looks once whether there is IPv6, and outside there is no loopback to see it by.
	serveName(t, here, ":9000", "the node")
	serveName(t, beyond.inside, ":80", "node2")

	other := world.New("node2")
	other.SetInfrastructure(testInfrastructure())
	other.SetNode(&model.Node{Name: "node2", UID: "uid-node2"})
	other.SetSynced(world.Reports)
	other.SetSynced(world.Settings)
	other.SetUnderlay(underlayOf(netip.MustParseAddr(tunnel)), nil)
	var found []netip.Addr
	must(t, beyond.inside(func() (err error) {
		found, err = netdev.AddressesBut(func(link string) bool { return notTheNodes(link, "br-int") })
		return err
	}))
	report, news := other.Report(found)
	want := []netip.Addr{
		netip.MustParseAddr(beyond.v4), netip.MustParseAddr(storage), netip.MustParseAddr(tunnel), netip.MustParseAddr(beyond.v6),
		netip.MustParseAddr(storage6),
	}
	slices.SortFunc(want, netip.Addr.Compare)
	if !news || !slices.Equal(report.Addresses, want) {
		t.Fatalf("node2 tells of %v (news: %t), want %v", report.Addresses, news, want)
	}

	at := func(addresses ...string) (out []string) {
		for _, address := range addresses {
			out = append(out, net.JoinHostPort(address, "80"))
		}
		return out
	}
	open := func(when string) {
		t.Helper()
		must(t, a.portholes.Refresh(t.Context(), portholes.Trusting))
		for _, p := range []*testPod{red, blue, infra} {
			for _, address := range at(storage, storage6, tunnel) {
				if _, err := ask(p.inside, address); err != nil {
					t.Errorf("%s %s does not reach %s: %v; this test shows nothing", when, p.nic.Network, address, err)
				}
			}
		}
	}
	open("before the report")
	a.world.SetNode(&model.Node{Name: "node2", UID: "uid-node2"})
	a.world.SetReport(&report)
	must(t, a.portholes.Refresh(t.Context(), portholes.Trusting))
	for _, address := range at(storage, storage6, beyond.v4, tunnel) {
		wantRefused(t, red.inside, address)
		wantRefused(t, infra.inside, address)
	}
	// With direct access, nodes; and still no tunnels.
	for _, address := range at(storage, storage6) {
		if _, err := ask(blue.inside, address); err != nil {
			t.Errorf("with direct access, %s: %v", address, err)
		}
	}
	wantRefused(t, blue.inside, at(tunnel)[0])
	a.world.DropReport("node2")
	open("without the report")
}

// addLeaf makes an interface of the calling thread's namespace that leads nowhere, with addresses.
func addLeaf(name string, addresses ...string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	link := &netlink.Veth{LinkAttrs: attrs, PeerName: name + "-end"}
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	for _, text := range addresses {
		a := netip.MustParseAddr(text)
		address, err := netlink.ParseAddr(netip.PrefixFrom(a, a.BitLen()).String())
		if err != nil {
			return err
		}
		address.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, address); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(link)
}
