package porthole

import (
	"net"
	"net/netip"

	"github.com/atoll-net/atoll/pkg/model"
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

// Addresses of the porthole as pods see them.
func errandAddress(family netip.Addr) netip.Addr {
	if family.Is4() {
		return model.PortholeAddresses()[0].Addr()
	}
	// A link-local address cannot be answered through a router. This one is routed to the porthole like everything that
	// is no subnet of the Network. (RFC 4193; the middle is random.)
	return netip.MustParseAddr("fdd7:5e3c:91a4::a701:2")
}

// never4 and never6 are what no pod of a vpc Network reaches through a porthole, whatever its Network may do.
//
// RFC 6890 has the special ranges. The last ones are where clouds keep a machine's credentials and settings, outside of
// the link-local range (AWS and GCP over IPv6; Azure; Alibaba Cloud; Oracle Cloud).
func never4() []netip.Prefix {
	return parsed("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"168.63.129.16/32", "100.100.100.200/32")
}

func never6() []netip.Prefix {
	return parsed("::/96", "::ffff:0:0/96", "fe80::/10", "fec0::/10", "ff00::/8", "fd00:ec2::/32", "fd20:ce::254/128",
		// What portholes have themselves.
		"fdd7:5e3c:91a4::/64")
}

func parsed(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// translated are IPv4 prefixes as they look behind a translator of the well-known prefix: a way around otherwise.
// (RFC 6052, 64:ff9b::/96.)
func translated(in []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range in {
		if !p.Addr().Is4() {
			continue
		}
		a := p.Addr().As4()
		out = append(out, netip.PrefixFrom(netip.AddrFrom16([16]byte{
			0, 0x64, 0xff, 0x9b, 12: a[0], 13: a[1], 14: a[2], 15: a[3],
		}), 96+p.Bits()))
	}
	return out
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
