package porthole

import (
	"fmt"
	"net/netip"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// testSpec has everything that a porthole can have, for three pods.
func testSpec(uid string) Spec {
	s := Spec{
		UID: uid, Network: "net-" + uid,
		Subnets:       parsed("10.0.0.0/24", "fd00:10::/64"),
		ServiceRanges: parsed("10.9.0.0/16", "fd09::/112"),
		Egress:        model.EgressNode, Infra: model.InfraServices,
		DNS: []netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00:96::a")},
		API: []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:443"), netip.MustParseAddrPort("[fd00:96::1]:443")},
		Cluster: Cluster{
			Servers: []netip.AddrPort{
				netip.MustParseAddrPort("192.0.2.1:6443"), netip.MustParseAddrPort("192.0.2.2:6443"),
				netip.MustParseAddrPort("[2001:db8::1]:6443"),
			},
			Faces:          parsed("100.64.0.0/10", "fd64::/32"),
			Infra:          parsed("192.0.2.1/32", "192.0.2.2/32", "10.128.0.0/16", "10.96.0.0/16", "fd00:96::/112"),
			Closed:         parsed("198.18.0.0/24", "192.0.2.130/32", "fd18::/64"),
			MaxConnections: 16384,
		},
		MTU: 1442, Offload: netdev.PodChecksums,
	}
	for i := range 3 {
		s.Pods = append(s.Pods, testPods(i)...)
	}
	return s
}

// testPods are both addresses of the pod of a number.
func testPods(n int) []Pod {
	return []Pod{
		{netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", 5+n)), netip.MustParseAddr(fmt.Sprintf("100.64.0.%d", 5+n))},
		{netip.MustParseAddr(fmt.Sprintf("fd00:10::%d", 5+n)), netip.MustParseAddr(fmt.Sprintf("fd64::%d", 5+n))},
	}
}

func testHost() Host {
	return Host{
		MAC: "0a:00:00:00:00:01", Addresses: parsedAddresses("10.128.0.7/16", "fd00:128::7/64"),
		Gateways: []netip.Addr{netip.MustParseAddr("10.128.0.1"), netip.MustParseAddr("fd00:128::1")},
		Default:  parsed("10.128.0.0/16", "10.129.0.0/16", "fd00:128::/64"),
		Blocks:   parsed("100.64.0.0/24", "fd64::/112"),
		Direct:   []string{"u1"},
		// The second one reaches the first, and is reached by the third.
		Compatible: []Compatible{{"u2", "u1"}, {"u3", "u2"}},
		Flat: []Flat{
			{Subnets: parsed("10.128.0.0/16", "10.129.0.0/16", "fd00:128::/64"), Egress: model.EgressNode, Infra: model.InfraDirect},
			{Subnets: parsed("10.130.0.0/16"), Egress: model.EgressNode, Infra: model.InfraServices},
			{Subnets: parsed("10.131.0.0/16"), Egress: model.EgressNone, Infra: model.InfraNone},
		},
		Walls: Walls{
			TunnelPorts: []uint16{6081}, Balancers: parsed("198.51.100.0/24"),
			Databases: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:6641"), netip.MustParseAddrPort("192.0.2.1:6642")},
			Instead:   []Instead{{"eth1", netip.MustParseAddr("192.0.2.7")}, {"eth1", netip.MustParseAddr("2001:db8::7")}},
		},
		Cluster: testSpec("").Cluster, MTU: 1442, Offload: netdev.PodChecksums,
	}
}

func parsedAddresses(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// nth is an address in the n-th block of 256 after another's.
func nth(a netip.Addr, n int) netip.Addr {
	bytes := a.AsSlice()
	bytes[len(bytes)-2] += byte(n)
	out, _ := netip.AddrFromSlice(bytes)
	return out
}

func parsed(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}
