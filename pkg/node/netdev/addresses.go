package netdev

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/vishvananda/netlink"
	"go4.org/netipx"
)

// Addresses are the node's addresses that reach beyond one link, sorted.
func Addresses() ([]netip.Addr, error) { return AddressesBut(nil) }

// AddressesBut are those of all links but some, by name; nil is for all.
func AddressesBut(without func(link string) bool) ([]netip.Addr, error) {
	list, err := ListAddresses(nil)
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	skipped := map[int]bool{}
	for _, a := range list {
		ip, ok := netipx.FromStdIP(a.IP)
		if !ok || !ip.IsGlobalUnicast() {
			continue
		}
		skip, seen := skipped[a.LinkIndex]
		if !seen && without != nil {
			link, err := netlink.LinkByIndex(a.LinkIndex)
			if NotFound(err) {
				// It has gone since.
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("find the link of %s: %w", ip, err)
			}
			skip = without(link.Attrs().Name)
			skipped[a.LinkIndex] = skip
		}
		if !skip {
			out = append(out, ip.Unmap())
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

// ListAddresses lists the addresses of a link, or of all links when it is nil, in the namespace of the calling thread. Each
// family is asked for by itself: for all at once the kernel locks all links of all namespaces.
func ListAddresses(link netlink.Link) ([]netlink.Addr, error) {
	var out []netlink.Addr
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := netlinksafe.AddrList(link, family)
		if err != nil {
			return nil, fmt.Errorf("list addresses: %w", err)
		}
		out = append(out, list...)
	}
	return out, nil
}
