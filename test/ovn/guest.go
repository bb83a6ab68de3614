package ovn

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// Interface is what a guest of a node is plugged in as.
type Interface struct {
	// Port is the name of its logical switch port, and UID what it must prove to be it (iface-id-ver); it may be empty.
	Port, UID string
	MAC       string
	Addresses []netip.Prefix
	Gateways  []netip.Addr
}

// Guest is a network namespace whose interface eth0 is plugged into a node's bridge, as a pod's is. No program runs in
// it: the test itself enters it.
type Guest struct {
	netns netns.NsHandle
	// end is the name of the interface's other end, the bridge's port.
	end string
}

// Plug makes a guest.
func (c *Chassis) Plug(ctx context.Context, i Interface) (*Guest, error) {
	handle, err := newNamespace()
	if err != nil {
		return nil, fmt.Errorf("make network namespace: %w", err)
	}
	c.ports++
	g := &Guest{netns: handle, end: fmt.Sprintf("guest%d", c.ports)}
	c.guests = append(c.guests, g)
	if err := g.Do(func() error { return c.addPair(g.end, i) }); err != nil {
		return nil, fmt.Errorf("make interface of %s: %w", i.Port, err)
	}
	err = inNamespace(c.inside, func() error {
		end, err := netlink.LinkByName(g.end)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(end)
	})
	if err != nil {
		return nil, fmt.Errorf("bring up %s: %w", g.end, err)
	}
	_, err = c.VSCtl(ctx, append([]string{"add-port", "br-int", g.end, "--"}, g.bind(i)...)...)
	return g, err
}

// bind are the words of ovs-vsctl that make a guest the logical switch port of i.
func (g *Guest) bind(i Interface) []string {
	out := []string{"set", "Interface", g.end, fmt.Sprintf("external_ids:iface-id=%q", i.Port)}
	if i.UID != "" {
		out = append(out, "external_ids:iface-id-ver="+i.UID)
	}
	return out
}

// Bind makes guests other ports, all at once. Their interfaces stay as they are, whatever the ports' addresses.
func (c *Chassis) Bind(ctx context.Context, ports map[*Guest]Interface) error {
	var words []string
	for g, i := range ports {
		words = append(append(append(words, "--"), g.release()...), "--")
		words = append(words, g.bind(i)...)
	}
	_, err := c.VSCtl(ctx, words...)
	return err
}

// Release has guests be no port of anything, all at once.
func (c *Chassis) Release(ctx context.Context, guests ...*Guest) error {
	var words []string
	for _, g := range guests {
		words = append(append(words, "--"), g.release()...)
	}
	_, err := c.VSCtl(ctx, words...)
	return err
}

func (g *Guest) release() []string {
	return []string{"remove", "Interface", g.end, "external_ids", "iface-id", "iface-id-ver", "ovn-installed"}
}

// Installed waits until the node has the flows of guests. Ports of type localport are never said to be there.
func (c *Chassis) Installed(ctx context.Context, guests ...*Guest) error {
	words := []string{"--timeout=60"}
	for _, g := range guests {
		words = append(words, "--", "wait-until", "Interface", g.end, "external_ids:ovn-installed=true")
	}
	_, err := c.VSCtl(ctx, words...)
	return err
}

// addPair runs in the guest's namespace.
func (c *Chassis) addPair(end string, i Interface) error {
	mac, err := net.ParseMAC(i.MAC)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = "eth0", mac, 1442
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: end, PeerNamespace: netlink.NsFd(int(c.inside))}
	if err := netlink.LinkAdd(pair); err != nil {
		return err
	}
	if err := netdev.Set("eth0", netdev.Setting{Protocol: "ipv6", Key: "accept_dad", Value: "0"}); err != nil {
		return err
	}
	if c.options.Datapath == UserspaceDatapath {
		if err := netdev.DisableTxChecksums("eth0"); err != nil {
			return err
		}
	}
	var link netlink.Link
	for _, name := range []string{"lo", "eth0"} {
		if link, err = netlink.LinkByName(name); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
	}
	for _, p := range i.Addresses {
		address := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
		if p.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, address); err != nil {
			return fmt.Errorf("add address %s: %w", p, err)
		}
	}
	for _, gateway := range i.Gateways {
		anywhere := &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
		if gateway.Is6() {
			anywhere = &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
		}
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: anywhere, Gw: gateway.AsSlice()}); err != nil {
			return fmt.Errorf("add route via %s: %w", gateway, err)
		}
	}
	return nil
}

// Do calls f on a thread that is in the guest's namespace. A socket that f makes stays there.
func (g *Guest) Do(f func() error) error { return inNamespace(g.netns, f) }

// newNamespace makes a network namespace, which lives as long as the handle.
func newNamespace() (made netns.NsHandle, err error) {
	home, err := netns.Get()
	if err != nil {
		return made, fmt.Errorf("open own network namespace: %w", err)
	}
	defer home.Close()
	err = inNamespace(home, func() (err error) {
		made, err = netns.New()
		return err
	})
	return made, err
}

// inNamespace calls f on a thread that is in a namespace. The thread comes back: daemons that it may have started would
// end with it.
func inNamespace(there netns.NsHandle, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			done <- fmt.Errorf("open own network namespace: %w", err)
			return
		}
		defer home.Close()
		if err := netns.Set(there); err != nil {
			done <- fmt.Errorf("enter network namespace: %w", err)
			return
		}
		err = f()
		// A thread that cannot come back stays locked, and ends with this goroutine.
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
