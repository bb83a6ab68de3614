package southbound

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

func addrs(texts ...string) (out []netip.Addr) {
	for _, text := range texts {
		if text == "" {
			out = append(out, netip.Addr{})
			continue
		}
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// known is what is known of nodes: of each a Node with addresses, and a report with tunnels, unless these are nil.
func known(nodes, tunnels map[string][]netip.Addr) machines {
	m := machines{nodes: map[string]*model.Node{}, reports: map[string]*model.NodeReport{}}
	for name, all := range nodes {
		m.nodes[name] = &model.Node{Name: name, UID: name, Addresses: all}
	}
	for name, all := range tunnels {
		m.reports[name] = &model.NodeReport{Node: name, NodeUID: name, Tunnels: all}
	}
	return m
}

// TestFalseEnds: what is surely another node's is told of, what both claim is doubtful, and of what is not known nothing is said.
func TestFalseEnds(t *testing.T) {
	nodes := map[string][]netip.Addr{"n1": addrs("192.0.2.1", "2001:db8::1"), "n2": addrs("192.0.2.2"), "new": nil}
	reports := map[string][]netip.Addr{"n1": addrs("192.0.2.1"), "n2": addrs("192.0.2.2", "198.51.100.2")}
	for name, c := range map[string]struct {
		end  ovsdb.TunnelEnds
		m    machines
		want []falseEnd
	}{
		"its own":  {ovsdb.TunnelEnds{Name: "n1", Hostname: "n1", Addresses: addrs("192.0.2.1")}, known(nodes, reports), nil},
		"nobody's": {ovsdb.TunnelEnds{Name: "n1", Addresses: addrs("203.0.113.1")}, known(nodes, reports), nil},
		"another's": {
			ovsdb.TunnelEnds{Name: "n1", Addresses: addrs("192.0.2.2")}, known(nodes, reports), []falseEnd{
				{"n1", "n2", addrs("192.0.2.2")[0], false},
			},
		},
		"another's, too": {
			ovsdb.TunnelEnds{Name: "n1", Addresses: addrs("192.0.2.1", "192.0.2.2")},
			known(nodes, reports),
			[]falseEnd{{"n1", "n2", addrs("192.0.2.2")[0], false}},
		},
		"another's tunnel": {
			ovsdb.TunnelEnds{Name: "n1", Addresses: addrs("198.51.100.2")},
			known(nodes, reports),
			[]falseEnd{{"n1", "n2", addrs("198.51.100.2")[0], false}},
		},
		"no address": {
			ovsdb.TunnelEnds{Name: "n1", Addresses: addrs("192.0.2.1", "")}, known(nodes, reports), []falseEnd{{chassis: "n1"}},
		},
		"another's name": {
			ovsdb.TunnelEnds{Name: "n1", Hostname: "n2", Addresses: addrs("192.0.2.1")},
			known(nodes, reports),
			[]falseEnd{{chassis: "n1", other: "n2"}},
		},
		"no node's name":     {ovsdb.TunnelEnds{Name: "n1", Hostname: "far", Addresses: addrs("192.0.2.1")}, known(nodes, reports), nil},
		"a Node without any": {ovsdb.TunnelEnds{Name: "new", Addresses: addrs("192.0.2.2")}, known(nodes, reports), nil},
		"no Node":            {ovsdb.TunnelEnds{Name: "n9", Addresses: addrs("192.0.2.2")}, known(nodes, reports), nil},
		"both claim it": {
			ovsdb.TunnelEnds{Name: "n1", Addresses: addrs("192.0.2.2")},
			known(map[string][]netip.Addr{"n1": addrs("192.0.2.1", "192.0.2.2"), "n2": addrs("192.0.2.2")}, reports),
			[]falseEnd{{"n1", "n2", addrs("192.0.2.2")[0], true}},
		},
		"both claim it by reports": {
			ovsdb.TunnelEnds{Name: "n1", Addresses: addrs("198.51.100.2")},
			known(nodes, map[string][]netip.Addr{"n1": addrs("198.51.100.2"), "n2": addrs("198.51.100.2")}),
			[]falseEnd{{"n1", "n2", addrs("198.51.100.2")[0], true}},
		},
		// Another node may have reported the address of the network for tunnels before its owner did.
		"no report yet": {
			ovsdb.TunnelEnds{Name: "n1", Addresses: addrs("198.51.100.1")},
			known(nodes, map[string][]netip.Addr{"n2": addrs("198.51.100.1")}),
			[]falseEnd{{"n1", "n2", addrs("198.51.100.1")[0], true}},
		},
	} {
		e := ends{settle: 10 * time.Second, had: map[string]addresses{}}
		begin := time.Unix(1e9, 0)
		e.judge(nil, c.m, begin)
		if got := e.judge([]ovsdb.TunnelEnds{c.end}, c.m, begin.Add(10*time.Second)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestAddressesThatHaveJustChangedAreNotJudged: neither the node whose they were nor the node whose they are now is blamed until all have
// settled.
func TestAddressesThatHaveJustChangedAreNotJudged(t *testing.T) {
	e := ends{settle: 10 * time.Second, had: map[string]addresses{}}
	begin := time.Unix(1e9, 0)
	reports := map[string][]netip.Addr{"n1": nil, "n2": nil}
	before := known(map[string][]netip.Addr{"n1": addrs("192.0.2.1"), "n2": addrs("192.0.2.2")}, reports)
	// n2 has got n1's address, and n1 another. Both chassis are as they were.
	after := known(map[string][]netip.Addr{"n1": addrs("192.0.2.3"), "n2": addrs("192.0.2.1")}, reports)
	chassis := []ovsdb.TunnelEnds{{Name: "n1", Addresses: addrs("192.0.2.1")}, {Name: "n2", Addresses: addrs("192.0.2.2")}}
	for i, step := range []struct {
		after time.Duration
		m     machines
		want  int
	}{
		{0, before, 0}, {20 * time.Second, before, 0}, {21 * time.Second, after, 0}, {30 * time.Second, after, 0}, {31 * time.Second, after, 1},
	} {
		if got := e.judge(chassis, step.m, begin.Add(step.after)); len(got) != step.want {
			t.Errorf("step %d: %v, want %d", i, got, step.want)
		}
	}
}
