package netdev

import (
	"net"
	"net/netip"
	"slices"

	"go4.org/netipx"
)

// Spec is the wanted state of one interface of a pod.
type Spec struct {
	Owner Owner
	// Netns is the path of the pod's network namespace.
	Netns string
	MAC   net.HardwareAddr
	// MTU of both ends, in bytes of IP packet.
	MTU       int
	Addresses []netip.Prefix
	// Faces are addresses that others know the pod by: it has them on lo, so that a program may bind to them.
	Faces []netip.Addr
	// Gateways get a default route each. One outside every address' subnet is reached on the link.
	Gateways []netip.Addr
	// Beyond are ranges that lie in an address' subnet and are nevertheless behind the gateway of their family.
	Beyond []netip.Prefix
	// Offload says who may fill in the checksums of what the pod sends.
	Offload Offload
}

// Offload is a choice for checksums.
type Offload int

const (
	// KernelChecksums leaves checksums to the kernel, which computes them when a packet leaves the machine.
	KernelChecksums Offload = iota
	// PodChecksums has the pod's end compute them: the userspace datapath reads frames from the node's end
	// as they are and would forward them with checksums missing.
	PodChecksums
)

// hasIPv6 reports whether the interface has an IPv6 address.
func (s Spec) hasIPv6() bool {
	return slices.ContainsFunc(s.Addresses, func(a netip.Prefix) bool { return a.Addr().Is6() })
}

// onLink reports whether gateway lies within one of the interface's subnets.
func (s Spec) onLink(gateway netip.Addr) bool {
	return slices.ContainsFunc(s.Addresses, func(a netip.Prefix) bool { return a.Contains(gateway) })
}

// gatewayOf is the gateway of a range's family; false when there is none.
func (s Spec) gatewayOf(p netip.Prefix) (netip.Addr, bool) {
	for _, g := range s.Gateways {
		if g.Is4() == p.Addr().Is4() {
			return g, true
		}
	}
	return netip.Addr{}, false
}

// onLo are the addresses that lo has.
func (s Spec) onLo() []netip.Prefix {
	var out []netip.Prefix
	for _, face := range s.Faces {
		out = append(out, netip.PrefixFrom(face, face.BitLen()))
	}
	return out
}

// anywhere is the destination of a default route of gateway's family.
func anywhere(gateway netip.Addr) *net.IPNet {
	if gateway.Is4() {
		return netipx.PrefixIPNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0))
	}
	return netipx.PrefixIPNet(netip.PrefixFrom(netip.IPv6Unspecified(), 0))
}
