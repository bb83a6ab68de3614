package model

import "net/netip"

// Never4 and Never6 are the ranges of each IP family that no pod reaches past its Network, whatever that may do.
//
// RFC 6890 has the special ranges. The last ones are where clouds keep a machine's credentials and settings, outside of
// the link-local range (AWS and GCP over IPv6; Azure; Alibaba Cloud; Oracle Cloud).
func Never4() []netip.Prefix {
	return parsed("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"168.63.129.16/32", "100.100.100.200/32")
}

// Never6 are those of IPv6.
func Never6() []netip.Prefix {
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
