//go:build integration

package decide_test

import (
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// outside puts somebody who answers at addresses of the world where blue's packets leave it.
func (g *peerStage) outside(addresses ...string) {
	g.t.Helper()
	for _, a := range addresses {
		at := netip.MustParseAddr(a)
		if err := g.node.Do(func() error {
			return exec.CommandContext(g.t.Context(), "ip", "addr", "add", netip.PrefixFrom(at, at.BitLen()).String(), "dev", "lo", "nodad").Run()
		}); err != nil {
			g.t.Fatal(err)
		}
		g.serveAt(g.node, netip.AddrPortFrom(at, 80), "outside")
	}
}

// owned gives a Network a tenant, to whom its namespace belongs, too.
func (g *peerStage) owned(network, namespace, tenant string) model.Network {
	g.setNamespace(namespace, map[string]string{model.LabelNetwork: network, model.LabelTenant: tenant})
	n := *g.networks[network]
	n.Tenant = tenant
	return n
}

// A provider of another tenant takes no address of the world by its own service ranges, nor a node's: of a Network that uses it,
// it gets what it sends to such addresses only where that Network names the range. What it had first nobody takes from another
// provider.
func TestServiceRangesOfAnotherTenantWithPackets(t *testing.T) {
	g := newPeerStage(t)
	const world, world6, second = "203.0.113.10:80", "[2001:db8::10]:80", "203.0.113.20:80"
	g.outside("203.0.113.10", "2001:db8::10", "203.0.113.20")
	prefixes := func(texts ...string) (out []netip.Prefix) {
		for _, text := range texts {
			out = append(out, netip.MustParsePrefix(text))
		}
		return out
	}
	ranges := prefixes("203.0.113.0/24", "2001:db8::/64")
	thief := g.owned("red", "r", "thief")
	thief.CompatibleWith = []model.CompatiblePeer{{Network: "blue"}}
	thief.ServiceCIDRs = ranges
	g.setNetwork(thief)
	victim := g.owned("blue", "b", "victim")
	victim.Uses = []string{"red"}
	g.setNetwork(victim)
	client, server := g.pod("b", "client"), g.pod("r", "server")
	g.serve(server, 80, "server")
	web := dualService("r", "web")
	web.Wanted = []netip.Addr{netip.MustParseAddrPort(world).Addr(), netip.MustParseAddrPort(world6).Addr()}
	g.setService(web)
	for _, v6 := range []bool{false, true} {
		g.behind("r", "web", v6, "server")
	}
	expect := func(when, want string, at ...string) {
		t.Helper()
		g.until(client, at[0], want)
		for _, address := range at {
			for _, protocol := range []string{"tcp", "udp"} {
				if got := asks(t, client, protocol, address); len(got) < len(want) || got[:len(want)] != want {
					t.Errorf("%s: %s by %s: %q, want that it %s", when, address, protocol, got, want)
				}
			}
		}
	}
	const outside, thiefs = "outside sees", "face sees"
	service := vips("r")
	expect("a ClusterIP of one that is used", thiefs, service[:]...)
	for i, at := range []string{world, world6} {
		g.leads("red", "r/web", "tcp", at, netip.AddrPortFrom(g.own("r", "server", i == 1), 8080))
	}
	expect("the world, of which a provider has a part", outside, world, world6)

	// The control: where the range is named, packets go to the provider.
	victim.UsesServiceCIDRs = map[string][]netip.Prefix{"red": ranges}
	g.setNetwork(victim)
	expect("a range that is named", thiefs, world, world6)

	// A node that has the address has it for everybody.
	host := node("host", 1)
	host.Addresses = []netip.Addr{netip.MustParseAddrPort(world).Addr()}
	g.setNode(host)
	expect("a node's address", outside, world)
	expect("another of the range", thiefs, world6)
	host.Addresses = nil
	g.setNode(host)
	expect("an address that was a node's", thiefs, world)

	// An older Network that adds the range takes nothing: who had it first keeps it. green had it, and red is older.
	first := g.owned("green", "g", "first")
	first.CompatibleWith, first.ServiceCIDRs = thief.CompatibleWith, ranges
	first.Created, first.Since = thief.Created.Add(1), map[netip.Prefix]time.Time{}
	thief.Since = map[netip.Prefix]time.Time{}
	for _, r := range ranges {
		first.Since[r], thief.Since[r] = time.Unix(1, 0), time.Unix(2, 0)
	}
	g.setNetwork(first)
	g.setNetwork(thief)
	g.pod("g", "server")
	web = dualService("r", "web")
	web.Key.Namespace, web.UID, web.ClusterIPs = "g", "uid-g", []netip.Addr{netip.MustParseAddr("10.96.0.7")}
	web.Wanted = []netip.Addr{netip.MustParseAddrPort(second).Addr()}
	g.setService(web)
	g.behind("g", "web", false, "server")
	victim.UsesServiceCIDRs["green"] = ranges
	g.setNetwork(victim)
	expect("of two the one that had it first", thiefs, second)
	for _, at := range []string{world, world6} {
		for _, protocol := range []string{"tcp", "udp"} {
			if got := asks(t, client, protocol, at); got != outside && len(got) >= len(thiefs) && got[:len(thiefs)] == thiefs {
				t.Errorf("the older Network's Service by %s: %q", protocol, got)
			}
		}
	}
}
