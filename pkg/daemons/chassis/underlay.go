package chassis

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"go4.org/netipx"
)

const (
	// physicalBridge has the interface by which tunnels leave, and its addresses.
	physicalBridge = "br-phys"
	// keyAddresses are the addresses of the bridge, in its external_ids: they go with the bridge's interface when ovs-vswitchd ends.
	keyAddresses = "atoll.dev/addresses"
)

// underlay lets the userspace datapath send tunnels: it reaches only what is on a bridge of its own.
type underlay struct {
	dirs Directories
	// link is the interface by which tunnels leave.
	link string
}

// ensure makes the bridge, with the interface and its addresses. It changes nothing that is right already.
func (u underlay) ensure(ctx context.Context) error {
	link, err := netlink.LinkByName(u.link)
	if err != nil {
		return fmt.Errorf("find underlay %s: %w", u.link, err)
	}
	// It waits for ovs-vswitchd.
	vsctl := func(words ...string) (string, error) {
		return u.dirs.run(ctx, "ovs-vsctl", append([]string{"--db=unix:" + u.dirs.database(), "--timeout=30"}, words...)...)
	}
	if _, err := vsctl("--may-exist", "add-br", physicalBridge, "--", "set", "Bridge", physicalBridge, "datapath_type="+string(Userspace),
		"--", "--may-exist", "add-port", physicalBridge, u.link,
		"--", "set", "Interface", physicalBridge, "mtu_request="+strconv.Itoa(link.Attrs().MTU)); err != nil {
		return err
	}
	printed, err := vsctl("--if-exists", "get", "Bridge", physicalBridge, "external_ids:"+keyAddresses)
	if err != nil {
		return err
	}
	addresses, err := storedAddresses(printed)
	if err != nil {
		return err
	}
	on, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("read addresses of %s: %w", u.link, err)
	}
	for _, a := range on {
		if p, ok := netipx.FromStdIPNet(a.IPNet); ok && !p.Addr().IsLinkLocalUnicast() && !slices.Contains(addresses, p) {
			addresses = append(addresses, p)
		}
	}
	if len(addresses) > 0 {
		texts := make([]string, len(addresses))
		for i, p := range addresses {
			texts[i] = p.String()
		}
		if _, err := vsctl("set", "Bridge", physicalBridge,
			fmt.Sprintf("external_ids:%s=%q", keyAddresses, strings.Join(texts, " "))); err != nil {
			return err
		}
	}
	return u.moveAddresses(link, on, addresses)
}

// moveAddresses gives addresses to the bridge, and takes from the link those of them that are on it.
func (u underlay) moveAddresses(link netlink.Link, on []netlink.Addr, addresses []netip.Prefix) error {
	bridge, err := netlink.LinkByName(physicalBridge)
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", physicalBridge, err)
	}
	for _, p := range addresses {
		if err := netlink.AddrReplace(bridge, &netlink.Addr{IPNet: netipx.PrefixIPNet(p)}); err != nil {
			return fmt.Errorf("give %s to %s: %w", p, physicalBridge, err)
		}
	}
	// Only now: an address that is nowhere would be lost.
	for _, a := range on {
		if p, ok := netipx.FromStdIPNet(a.IPNet); ok && slices.Contains(addresses, p) {
			if err := netlink.AddrDel(link, &a); err != nil {
				return fmt.Errorf("take %s from %s: %w", p, u.link, err)
			}
		}
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return fmt.Errorf("bring up %s: %w", physicalBridge, err)
	}
	return nil
}

// storedAddresses reads the value of keyAddresses as ovs-vsctl prints it.
func storedAddresses(printed string) (out []netip.Prefix, err error) {
	text := printed
	if strings.HasPrefix(printed, `"`) {
		if err := json.Unmarshal([]byte(printed), &text); err != nil {
			return nil, fmt.Errorf("read addresses of %s: %w", physicalBridge, err)
		}
	}
	for one := range strings.FieldsSeq(text) {
		p, err := netip.ParsePrefix(one)
		if err != nil {
			return nil, fmt.Errorf("read addresses of %s: %w", physicalBridge, err)
		}
		out = append(out, p)
	}
	return out, nil
}
