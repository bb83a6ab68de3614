package dns

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// The domains of reverse names (RFC 1035, RFC 3596).
const (
	reverse4 = "in-addr.arpa."
	reverse6 = "ip6.arpa."
)

const hexDigits = "0123456789abcdef"

// localRanges are the ranges whose reverse names say something about this cluster or about no one: what the world knows
// of them is nothing (RFC 6303, RFC 7793, RFC 6890).
func localRanges() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"::/96", "::ffff:0:0/96", "100::/64", "2001:db8::/32", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// reversePrefix reads as much of a reverse name as is there, in lower case: the whole of it is an address, a part of it a
// prefix. zone is the domain of the family; empty when the name is no reverse name.
func reversePrefix(name string) (p netip.Prefix, zone string, exact bool) {
	zone = reverseZone(name)
	if zone == "" {
		return p, "", false
	}
	labels := dns.SplitDomainName(strings.TrimSuffix(strings.TrimSuffix(name, zone), "."))
	slices.Reverse(labels)
	if zone == reverse4 {
		var b [4]byte
		n := 0
		for ; n < min(4, len(labels)); n++ {
			octet, err := strconv.ParseUint(labels[n], 10, 8)
			if err != nil || labels[n] != strconv.FormatUint(octet, 10) {
				break
			}
			b[n] = byte(octet)
		}
		return netip.PrefixFrom(netip.AddrFrom4(b), 8*n), zone, n == len(labels)
	}
	var digits strings.Builder
	for _, l := range labels[:min(32, len(labels))] {
		if len(l) != 1 || !strings.ContainsRune(hexDigits, rune(l[0])) {
			break
		}
		digits.WriteString(l)
	}
	n := digits.Len()
	raw, err := hex.DecodeString(digits.String() + strings.Repeat("0", 32-n))
	if err != nil {
		return p, zone, false
	}
	return netip.PrefixFrom(netip.AddrFrom16([16]byte(raw)), 4*n), zone, n == len(labels)
}

func reverseZone(name string) string {
	for _, zone := range []string{reverse4, reverse6} {
		if name == zone || strings.HasSuffix(name, "."+zone) {
			return zone
		}
	}
	return ""
}

// reverseAddr is the address of a whole reverse name. zone is empty when it is none.
func reverseAddr(name string) (a netip.Addr, zone string) {
	p, zone, exact := reversePrefix(name)
	if zone == "" || !exact || !p.IsSingleIP() {
		return a, ""
	}
	return p.Addr(), zone
}
