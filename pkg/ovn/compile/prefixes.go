package compile

import (
	"fmt"
	"net/netip"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// blockPrefixes are the prefixes of one IP family that together are the block: the range without its exceptions. OVN could
// be told the exceptions as such, but makes a flow for each bit of each; and of several of them one for each combination.
func blockPrefixes(b model.Block, v4 bool) []netip.Prefix {
	if !b.CIDR.IsValid() || b.CIDR.Addr().Is4() != v4 {
		return nil
	}
	var except []netip.Prefix
	for _, e := range b.Except {
		except = append(except, e.Masked())
	}
	return carve(nil, b.CIDR.Masked(), except)
}

// carve appends what is left of a prefix without its exceptions, as prefixes in order. It halves a prefix that contains a part of
// an exception.
func carve(out []netip.Prefix, p netip.Prefix, except []netip.Prefix) []netip.Prefix {
	var inside []netip.Prefix
	for _, e := range except {
		if !e.Overlaps(p) {
			continue
		}
		if e.Bits() <= p.Bits() {
			return out
		}
		inside = append(inside, e)
	}
	if len(inside) == 0 {
		return append(out, p)
	}
	low, high := halves(p)
	return carve(carve(out, low, inside), high, inside)
}

// halves are the two halves of a prefix that is longer than one address.
func halves(p netip.Prefix) (low, high netip.Prefix) {
	low = netip.PrefixFrom(p.Addr(), p.Bits()+1)
	octets := p.Addr().AsSlice()
	octets[p.Bits()/8] |= 1 << (7 - p.Bits()%8)
	upper, _ := netip.AddrFromSlice(octets)
	return low, netip.PrefixFrom(upper, p.Bits()+1)
}

// portMasks are the ports from first to last, both included, as OVN's masked constants: each the ports that share some
// of the first of their 16 bits. (ovn-sb(5), Logical_Flow match.)
func portMasks(first, last uint16) []string {
	var out []string
	for at, end := uint32(first), uint32(last); at <= end; {
		size := uint32(1)
		for at%(2*size) == 0 && at+2*size-1 <= end {
			size *= 2
		}
		if size == 1 {
			out = append(out, fmt.Sprint(at))
		} else {
			out = append(out, fmt.Sprintf("%#x/%#x", at, 0x10000-size))
		}
		at += size
	}
	return out
}
