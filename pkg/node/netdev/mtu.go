package netdev

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// ipv6Excess is how much longer an IPv6 header is than an IPv4 header, in bytes.
const ipv6Excess = 20

// TunnelMTU is the largest IP packet of a pod that fits, in a Geneve tunnel, through the interface which
// carries the tunnel's address.
func TunnelMTU(encap netip.Addr) (int, error) {
	link, err := holder(encap)
	if err != nil {
		return 0, err
	}
	if link == nil {
		return 0, fmt.Errorf("no interface of this node has the tunnel's address %s (ovn-encap-ip)", encap)
	}
	return podMTU(link.Attrs().MTU, encap), nil
}

// Holder is the name of the interface that has an address; empty when none of the node's has it.
func Holder(a netip.Addr) (string, error) {
	link, err := holder(a)
	if err != nil || link == nil {
		return "", err
	}
	return link.Attrs().Name, nil
}

func holder(address netip.Addr) (netlink.Link, error) {
	addresses, err := ListAddresses(nil)
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if ip, ok := netip.AddrFromSlice(a.IP); !ok || ip.Unmap() != address {
			continue
		}
		link, err := netlink.LinkByIndex(a.LinkIndex)
		if err != nil {
			return nil, fmt.Errorf("find the link of %s: %w", address, err)
		}
		return link, nil
	}
	return nil, nil
}

// podMTU is what Geneve leaves of an underlay's MTU. Loopback and the like are larger than any packet.
func podMTU(underlay int, encap netip.Addr) int {
	mtu := underlay - model.GeneveOverhead
	if encap.Is6() {
		mtu -= ipv6Excess
	}
	return min(mtu, 65535)
}
