package netdev

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"go4.org/netipx"
	"golang.org/x/sys/unix"
)

// Create makes the pair of spec, anew when one of the same name exists, and configures both ends. When it
// fails it leaves nothing behind.
func Create(spec Spec) error {
	netns, err := ns.GetNS(spec.Netns)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer netns.Close()
	if err := Delete(spec.Owner); err != nil {
		return err
	}
	if err := addPair(spec, netns); err != nil {
		return err
	}
	if err := configure(spec, netns); err != nil {
		return errors.Join(err, Delete(spec.Owner))
	}
	return nil
}

// addPair adds both ends at once, each in its namespace, so that no step between is seen by anyone.
func addPair(spec Spec, netns ns.NetNS) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = spec.Owner.HostName()
	attrs.MTU = spec.MTU
	OneQueue(&attrs)
	pair := &netlink.Veth{
		LinkAttrs:        attrs,
		PeerName:         spec.Owner.Interface,
		PeerHardwareAddr: spec.MAC,
		PeerNamespace:    netlink.NsFd(int(netns.Fd())),
	}
	if err := netlink.LinkAdd(pair); err != nil {
		if errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add veth %s: interface %s exists already in the pod's network namespace: %w",
				attrs.Name, spec.Owner.Interface, err)
		}
		return fmt.Errorf("add veth %s: %w", attrs.Name, err)
	}
	return nil
}

// OneQueue has both ends of a veth pair made with the one queue that a veth uses unless it is told otherwise. Without a word
// Linux makes one for each processor and then takes all but one away again. For that it waits until no processor can be
// using them, twice, and holds the lock of all links meanwhile: on a busy machine for hundreds of milliseconds.
// (veth_newlink and netif_set_real_num_tx_queues in Linux 5.15 and later.)
func OneQueue(attrs *netlink.LinkAttrs) { attrs.NumTxQueues, attrs.NumRxQueues = 1, 1 }

// configure brings both ends up.
func configure(spec Spec, netns ns.NetNS) error {
	name := spec.Owner.HostName()
	if err := Quieten(name); err != nil {
		return err
	}
	host, err := LinkOf(name)
	if err != nil {
		return err
	}
	// Linux takes no alias with a new link.
	if err := RaiseAs(host, spec.Owner.Alias()); err != nil {
		return err
	}
	return netns.Do(func(ns.NetNS) error { return configurePod(spec) })
}

// configurePod runs inside the pod's network namespace: each netlink request opens a socket of its own, there.
func configurePod(spec Spec) error {
	lo, err := bringUp("lo")
	if err != nil {
		return err
	}
	if err := addFaces(lo, spec.onLo()); err != nil {
		return err
	}
	name := spec.Owner.Interface
	if err := harden(spec); err != nil {
		return err
	}
	if spec.Offload == PodChecksums {
		if err := DisableTxChecksums(name); err != nil {
			return err
		}
	}
	link, err := bringUp(name)
	if err != nil {
		return err
	}
	for _, prefix := range spec.Addresses {
		address := &netlink.Addr{IPNet: netipx.PrefixIPNet(prefix)}
		if prefix.Addr().Is6() {
			// OVN lets nobody else use the address: nothing to detect, and no second to lose.
			address.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, address); err != nil {
			return fmt.Errorf("add address %s to %s in the pod: %w", prefix, name, err)
		}
	}
	for _, gateway := range spec.Gateways {
		if err := netlink.RouteAdd(spec.defaultRoute(link.Attrs().Index, gateway)); err != nil {
			return fmt.Errorf("add default route via %s in the pod: %w", gateway, err)
		}
	}
	for _, beyond := range spec.Beyond {
		gateway, has := spec.gatewayOf(beyond)
		if !has {
			continue
		}
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: netipx.PrefixIPNet(beyond), Gw: gateway.AsSlice()}
		// The gateway may lie in the range itself, where it is on the link all the same.
		route.SetFlag(netlink.FLAG_ONLINK)
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("add route to %s via %s in the pod: %w", beyond, gateway, err)
		}
	}
	return nil
}

// addFaces gives lo addresses that the pod may bind to, but does not choose by itself. (IPv6: RFC 6724, a deprecated
// address is chosen last; IPv4: the address of the interface that a packet leaves by is.)
func addFaces(lo netlink.Link, faces []netip.Prefix) error {
	const forever = 1<<32 - 1
	for _, face := range faces {
		address := &netlink.Addr{IPNet: netipx.PrefixIPNet(face)}
		if face.Addr().Is6() {
			address.Flags, address.ValidLft = unix.IFA_F_NODAD, forever
		}
		if err := netlink.AddrReplace(lo, address); err != nil {
			return fmt.Errorf("add address %s to lo in the pod: %w", face, err)
		}
	}
	return nil
}

func (s Spec) defaultRoute(index int, gateway netip.Addr) *netlink.Route {
	route := &netlink.Route{LinkIndex: index, Dst: anywhere(gateway), Gw: gateway.AsSlice()}
	if !s.onLink(gateway) {
		route.SetFlag(netlink.FLAG_ONLINK)
	}
	return route
}

func bringUp(name string) (netlink.Link, error) {
	link, err := LinkOf(name)
	if err != nil {
		return nil, fmt.Errorf("%w in the pod", err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("bring up %s in the pod: %w", name, err)
	}
	return link, nil
}
