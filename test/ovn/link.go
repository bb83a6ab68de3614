package ovn

import (
	"context"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"github.com/atoll-net/atoll/pkg/node/netdev"
)

const (
	// cable is the name of a node's end of the cable to another one.
	cable = "underlay"
	// underlay is the bridge by which the userspace datapath sends its tunnels' packets: it knows no other way out.
	underlay = "br-phys"
	// cableMTU leaves guests' packets room for a tunnel's headers.
	cableMTU = 1600
)

// Link lays a cable between two nodes, each of which has an address of its own (Tunnel), so that their tunnels work.
func Link(ctx context.Context, a, b *Chassis) error {
	err := inNamespace(a.inside, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = cable, cableMTU
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: cable, PeerNamespace: netlink.NsFd(int(b.inside)), PeerMTU: cableMTU})
	})
	if err != nil {
		return fmt.Errorf("lay a cable from %s to %s: %w", a.options.Name, b.options.Name, err)
	}
	var macs [2]net.HardwareAddr
	for i, c := range []*Chassis{a, b} {
		if macs[i], err = c.useCable(ctx); err != nil {
			return fmt.Errorf("plug the cable into %s: %w", c.options.Name, err)
		}
	}
	if a.options.Datapath != UserspaceDatapath {
		return nil
	}
	// The userspace datapath drops what it sends first to a neighbour that it does not know yet.
	for i, c := range []*Chassis{a, b} {
		other := []*Chassis{b, a}[i]
		for _, words := range [][]string{
			{"tnl/neigh/aging", "3600"}, {"tnl/neigh/set", underlay, other.options.Tunnel.String(), macs[1-i].String()},
		} {
			if _, err := c.Ask(ctx, "ovs-vswitchd", words...); err != nil {
				return fmt.Errorf("introduce %s to %s: %w", other.options.Name, c.options.Name, err)
			}
		}
	}
	return nil
}

// useCable gives a node its address on the cable, and returns the MAC address that it has there.
func (c *Chassis) useCable(ctx context.Context) (net.HardwareAddr, error) {
	name := cable
	if c.options.Datapath == UserspaceDatapath {
		name = underlay
		if _, err := c.VSCtl(ctx, "add-br", underlay, "--", "set", "Bridge", underlay, "datapath_type="+c.options.Datapath,
			"--", "add-port", underlay, cable); err != nil {
			return nil, err
		}
	}
	var mac net.HardwareAddr
	err := inNamespace(c.inside, func() error {
		if c.options.Datapath == UserspaceDatapath {
			if err := netdev.DisableTxChecksums(cable); err != nil {
				return err
			}
		}
		for _, each := range []string{cable, name} {
			link, err := netlink.LinkByName(each)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
			mac = link.Attrs().HardwareAddr
		}
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: c.options.Tunnel.AsSlice(), Mask: net.CIDRMask(24, 32)}})
	})
	return mac, err
}
