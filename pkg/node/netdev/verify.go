package netdev

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"go4.org/netipx"
	"golang.org/x/sys/unix"
)

// ErrDiffers wraps what Verify finds wrong with an interface, as opposed to what it could not find out.
var ErrDiffers = errors.New("interface is not as it was made")

// Verify reports how the interface in the kernel differs from spec; nil when it is as Create made it. What a
// pod has added itself does not matter.
func Verify(spec Spec) error {
	host, err := netlink.LinkByName(spec.Owner.HostName())
	if NotFound(err) {
		return differs("%s is missing on the node", spec.Owner.HostName())
	}
	if err != nil {
		return fmt.Errorf("find %s: %w", spec.Owner.HostName(), err)
	}
	attrs := host.Attrs()
	if owner, ours := ParseOwner(attrs.Name, attrs.Alias); !ours || owner.PodUID != spec.Owner.PodUID {
		return differs("%s on the node has another owner (alias %q)", attrs.Name, attrs.Alias)
	}
	if attrs.RawFlags&unix.IFF_UP == 0 {
		return differs("%s on the node is down", attrs.Name)
	}
	netns, err := ns.GetNS(spec.Netns)
	if err != nil {
		return differs("the pod's network namespace cannot be opened: %v", err)
	}
	defer netns.Close()
	return netns.Do(func(ns.NetNS) error { return verifyPod(spec, attrs.ParentIndex) })
}

// verifyPod runs inside the pod's network namespace. peer is the index there of the node's other end.
func verifyPod(spec Spec, peer int) error {
	name := spec.Owner.Interface
	link, err := netlink.LinkByName(name)
	if NotFound(err) {
		return differs("%s is missing in the pod", name)
	}
	if err != nil {
		return fmt.Errorf("find %s in the pod: %w", name, err)
	}
	attrs := link.Attrs()
	switch {
	case attrs.Index != peer:
		return differs("%s in the pod is not the other end of %s", name, spec.Owner.HostName())
	case !bytes.Equal(attrs.HardwareAddr, spec.MAC):
		return differs("%s in the pod has MAC %s, not %s", name, attrs.HardwareAddr, spec.MAC)
	case attrs.RawFlags&unix.IFF_UP == 0:
		return differs("%s in the pod is down", name)
	}
	if err := verifyAddresses(link, spec.Addresses); err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo in the pod: %w", err)
	}
	if err := verifyAddresses(lo, spec.onLo()); err != nil {
		return err
	}
	return verifyRoutes(link, spec)
}

func verifyAddresses(link netlink.Link, addresses []netip.Prefix) error {
	present, err := ListAddresses(link)
	if err != nil {
		return fmt.Errorf("look at %s in the pod: %w", link.Attrs().Name, err)
	}
	var found []netip.Prefix
	for _, a := range present {
		if prefix, ok := netipx.FromStdIPNet(a.IPNet); ok {
			found = append(found, prefix)
		}
	}
	for _, wanted := range addresses {
		if !slices.Contains(found, wanted) {
			return differs("%s in the pod lacks address %s", link.Attrs().Name, wanted)
		}
	}
	return nil
}

func verifyRoutes(link netlink.Link, spec Spec) error {
	routes, err := netlinksafe.RouteList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list routes of %s in the pod: %w", link.Attrs().Name, err)
	}
	for _, wanted := range spec.Gateways {
		if !slices.ContainsFunc(routes, func(r netlink.Route) bool {
			via, ok := netip.AddrFromSlice(r.Gw)
			return ok && via.Unmap() == wanted && isDefault(r)
		}) {
			return differs("the default route via %s is missing in the pod", wanted)
		}
	}
	for _, beyond := range spec.Beyond {
		gateway, has := spec.gatewayOf(beyond)
		if has && !slices.ContainsFunc(routes, func(r netlink.Route) bool {
			via, ok := netip.AddrFromSlice(r.Gw)
			return ok && via.Unmap() == gateway && r.Dst != nil && r.Dst.String() == netipx.PrefixIPNet(beyond).String()
		}) {
			return differs("the route to %s via %s is missing in the pod", beyond, gateway)
		}
	}
	return nil
}

func isDefault(r netlink.Route) bool {
	if r.Dst == nil {
		return true
	}
	bits, _ := r.Dst.Mask.Size()
	return bits == 0
}

func differs(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDiffers, fmt.Sprintf(format, args...))
}
