package porthole

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// cable is a veth pair between the node's namespace and a porthole, or with both ends in the former.
type cable struct {
	// outer is the name in the node's namespace, inner that in the porthole.
	outer, inner string
	// outerMAC is empty when any will do.
	outerMAC, innerMAC string
	alias              string
	mtu                int
	// bridged: the outer end is for the bridge, and the node's own stack has nothing to do with it.
	bridged bool
}

// cables are both links of a porthole.
func (s Spec) cables() []cable {
	return []cable{
		{outer: s.id().Name(), inner: networkSide, innerMAC: model.PortholeMAC, alias: alias(s), mtu: s.MTU, bridged: true},
		{outer: s.id().HostLink(), inner: hostSide, outerMAC: nodeMAC, innerMAC: portholeMAC, alias: alias(s), mtu: s.MTU},
	}
}

// whole reports whether both ends are there and belong together.
func (c cable) whole(netns ns.NetNS) (bool, error) {
	found, err := c.differences(netns)
	return len(found) == 0, err
}

// differences are what of the pair would have to be made anew.
func (c cable) differences(netns ns.NetNS) (out []api.NodeDifference, err error) {
	object := "link " + c.outer
	differs := func(want, have any) {
		if w, h := fmt.Sprint(want), fmt.Sprint(have); w != h {
			out = append(out, api.NodeDifference{Kind: api.NodeObjectDiffers, Object: object, Want: w, Have: h})
		}
	}
	outer, err := netdev.Find(c.outer)
	if err != nil || outer == nil {
		return []api.NodeDifference{{Kind: api.NodeObjectMissing, Object: object}}, err
	}
	attrs := outer.Attrs()
	differs("alias "+c.alias, "alias "+attrs.Alias)
	differs(fmt.Sprint("MTU ", c.mtu), fmt.Sprint("MTU ", attrs.MTU))
	if c.outerMAC != "" {
		differs("MAC "+c.outerMAC, "MAC "+attrs.HardwareAddr.String())
	}
	err = inside(netns, func() error {
		object = "link " + c.inner + ", the other end of " + c.outer
		inner, err := netdev.Find(c.inner)
		if err != nil {
			return err
		}
		if inner == nil {
			out = append(out, api.NodeDifference{Kind: api.NodeObjectMissing, Object: object})
			return nil
		}
		a := inner.Attrs()
		differs(fmt.Sprint("index ", attrs.ParentIndex), fmt.Sprint("index ", a.Index))
		differs("MAC "+c.innerMAC, "MAC "+a.HardwareAddr.String())
		differs(fmt.Sprint("MTU ", c.mtu), fmt.Sprint("MTU ", a.MTU))
		return nil
	})
	return out, err
}

// make makes the pair anew, both ends at once, each in its namespace, where there is no inner end, and readies the outer end,
// which stays down.
func (c cable) make(netns ns.NetNS) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = c.outer, c.mtu
	netdev.OneQueue(&attrs)
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: c.inner, PeerMTU: uint32(c.mtu)}
	if netns != nil {
		pair.PeerNamespace = netlink.NsFd(int(netns.Fd()))
	}
	var err error
	if pair.PeerHardwareAddr, err = net.ParseMAC(c.innerMAC); err != nil {
		return fmt.Errorf("read MAC address: %w", err)
	}
	if c.outerMAC != "" {
		if pair.HardwareAddr, err = net.ParseMAC(c.outerMAC); err != nil {
			return fmt.Errorf("read MAC address: %w", err)
		}
	}
	err = netlink.LinkAdd(pair)
	if errors.Is(err, unix.EEXIST) {
		if err := removeLink(c.outer); err != nil {
			return err
		}
		err = netlink.LinkAdd(pair)
	}
	if err != nil {
		return fmt.Errorf("add veth %s: %w", c.outer, err)
	}
	if err := c.ready(); err != nil {
		return errors.Join(err, netdev.DeleteLink(c.outer))
	}
	return nil
}

// ready sets what the outer end needs before it is up.
func (c cable) ready() error {
	if c.bridged {
		return netdev.Quieten(c.outer)
	}
	outer, err := netdev.LinkOf(c.outer)
	if err != nil {
		return err
	}
	return hostEnd(outer)
}

// raise marks the outer end of a pair that has been made as ours, and brings it up. When it fails there is no pair.
func (c cable) raise() error {
	outer, err := netdev.LinkOf(c.outer)
	if err == nil {
		err = netdev.RaiseAs(outer, c.alias)
	}
	if err != nil {
		return errors.Join(err, netdev.DeleteLink(c.outer))
	}
	return nil
}

// ensure makes the pair unless it is whole, and brings the outer end up.
func (c cable) ensure(netns ns.NetNS) error {
	if whole, err := c.whole(netns); err != nil {
		return err
	} else if whole {
		return c.bringUp()
	}
	if err := inside(netns, func() error { return netdev.DeleteLink(c.inner) }); err != nil {
		return err
	}
	if err := c.make(netns); err != nil {
		return err
	}
	return c.raise()
}

func (c cable) bringUp() error {
	outer, err := netdev.LinkOf(c.outer)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(outer); err != nil {
		return fmt.Errorf("bring up %s: %w", c.outer, err)
	}
	return nil
}

// removeLink removes a pair by its end in the node's namespace; that there is none is no error. A link of the name that is
// not ours stays, with an error.
func removeLink(outer string) error {
	link, err := netdev.Find(outer)
	if err != nil || link == nil {
		return err
	}
	if !isOurs(link) {
		return fmt.Errorf("delete %s: it was not made by atoll (alias %q)", outer, link.Attrs().Alias)
	}
	return netdev.DeleteLink(outer)
}

// hostEnd readies the node's end of a link to a porthole. The table checks by reverse path where packets come from.
func hostEnd(link netlink.Link) error {
	err := netdev.Set(link.Attrs().Name, append(unmoved(), forwarding(), disabled(false),
		netdev.Setting{Protocol: "ipv4", Key: "rp_filter", Value: looseReversePath},
		// Answer ARP for none of the node's addresses: the porthole knows the one that it needs.
		netdev.Setting{Protocol: "ipv4", Key: "arp_ignore", Value: "8"},
	)...)
	if err != nil {
		return err
	}
	// There would be something to talk to.
	return netdev.NoLinkLocal(link)
}

// looseReversePath has the kernel take packets from wherever a route back exists by any interface; the larger of this
// and the value for all interfaces counts. (ip-sysctl in the kernel's documentation.)
const looseReversePath = "2"

// neighbour adds a neighbour that stays as it is.
func neighbour(link netlink.Link, address netip.Addr, mac string) error {
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		return fmt.Errorf("read MAC address: %w", err)
	}
	err = netlink.NeighSet(&netlink.Neigh{
		LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: address.AsSlice(), HardwareAddr: hardware,
	})
	if err != nil {
		return fmt.Errorf("set neighbour %s of %s: %w", address, link.Attrs().Name, err)
	}
	return nil
}
