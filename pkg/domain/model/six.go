package model

import (
	"net/netip"
	"slices"
)

// Where pods of a Network that has addresses of IPv6 alone find what the cluster has by IPv4 alone: both are the porthole's, on each
// node the same, and routed there like all that is no subnet of the Network. (RFC 4193; the middle is random.)

// NamesAddress6 is where these pods ask for names.
func NamesAddress6() netip.Addr { return netip.MustParseAddr("fdd7:5e3c:91a4::a703:35") }

// APIAddress6 is where they find the Kubernetes API, under its usual port.
func APIAddress6() netip.Addr { return netip.MustParseAddr("fdd7:5e3c:91a4::a703:1") }

// OnlyIPv6 reports whether the Network asks for addresses of IPv6 and for none of IPv4. One that lists no subnet gets the
// cluster's default one, which is of IPv4.
func (n Network) OnlyIPv6() bool {
	six := false
	for _, s := range n.Subnets {
		for _, cidr := range s.CIDRs {
			if cidr.Addr().Is4() {
				return false
			}
			six = true
		}
	}
	return six
}

// HasIPv6 reports whether one of some addresses is of IPv6.
func HasIPv6(all []netip.Addr) bool {
	return slices.ContainsFunc(all, netip.Addr.Is6)
}
