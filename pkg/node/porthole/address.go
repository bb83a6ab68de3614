package porthole

import (
	"net"
	"net/netip"
)

// The link between a porthole and its node. It is never seen by anyone else, so that every porthole has the same
// addresses on it: next hops only, whose MAC addresses both sides know. (RFC 3927, RFC 4291: for a link only.)
const (
	nodeMAC     = "0e:a7:02:00:00:01"
	portholeMAC = "0e:a7:02:00:00:02"
)

// hop is both ends of that link in one family.
type hop struct{ node, porthole netip.Addr }

func hopFor(family netip.Addr) hop {
	if family.Is4() {
		return hop{netip.MustParseAddr("169.254.100.5"), netip.MustParseAddr("169.254.100.6")}
	}
	return hop{netip.MustParseAddr("fe80::a702:1"), netip.MustParseAddr("fe80::a702:2")}
}

// linkLocal is the address for a link that follows from a MAC address. (RFC 4291, appendix A.)
func linkLocal(mac net.HardwareAddr) netip.Addr {
	a := [16]byte{0: 0xfe, 1: 0x80, 11: 0xff, 12: 0xfe}
	copy(a[8:], mac[:3])
	copy(a[13:], mac[3:])
	a[8] ^= 2
	return netip.AddrFrom16(a)
}

// ofFamily are the prefixes of the family of an address.
func ofFamily(in []netip.Prefix, family netip.Addr) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range in {
		if p.Addr().Is4() == family.Is4() {
			out = append(out, p)
		}
	}
	return out
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// families are an address of each family that is served.
func families(ipv6 bool) []netip.Addr {
	if ipv6 {
		return []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	return []netip.Addr{netip.IPv4Unspecified()}
}
