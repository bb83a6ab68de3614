package sandbox

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"

	"github.com/digitalocean/go-openvswitch/ovs"
	"github.com/vishvananda/netlink"
	"go4.org/netipx"
)

const (
	physicalBridge    = "br-phys"
	integrationBridge = "br-int"
)

// MakeBridges gives a node its bridges: br-phys with the tunnels' interface and address, and br-int, which
// OVN fills. It runs on the node, after each start of ovs-vswitchd, and changes nothing that is right already.
func MakeBridges(tunnel netip.Prefix) error {
	client := ovs.New(ovs.Timeout(20), ovs.Exec(userspace))
	for _, bridge := range []string{physicalBridge, integrationBridge} {
		if err := client.VSwitch.AddBridge(bridge); err != nil {
			return fmt.Errorf("make bridge %s: %w", bridge, err)
		}
	}
	// Without a controller br-int forwards nothing: a packet goes only where OVN lets it.
	if err := client.VSwitch.SetFailMode(integrationBridge, ovs.FailModeSecure); err != nil {
		return fmt.Errorf("close bridge %s: %w", integrationBridge, err)
	}
	if err := client.VSwitch.AddPort(physicalBridge, tunnelInterface); err != nil {
		return fmt.Errorf("add %s to %s: %w", tunnelInterface, physicalBridge, err)
	}
	if err := client.VSwitch.Set.Interface(physicalBridge, ovs.InterfaceOptions{MTURequest: underlayMTU}); err != nil {
		return fmt.Errorf("set MTU of %s: %w", physicalBridge, err)
	}
	link, err := netlink.LinkByName(physicalBridge)
	if err != nil {
		return fmt.Errorf("find %s: %w", physicalBridge, err)
	}
	address := &netlink.Addr{IPNet: netipx.PrefixIPNet(tunnel)}
	if err := netlink.AddrReplace(link, address); err != nil {
		return fmt.Errorf("give %s to %s: %w", tunnel, physicalBridge, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring up %s: %w", physicalBridge, err)
	}
	return nil
}

// userspace runs a command for the Open vSwitch client, and makes each new bridge one of the userspace datapath.
// The client has no option for that; and a bridge that began with another datapath would fail first, since the
// kernel has none.
func userspace(name string, arguments ...string) ([]byte, error) {
	if at := slices.Index(arguments, "add-br"); at >= 0 && at+1 < len(arguments) {
		arguments = append(slices.Clone(arguments), "--", "set", "bridge", arguments[at+1], "datapath_type=netdev")
	}
	out, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("run %s %v: %w: %s", name, arguments, err, out)
	}
	return out, nil
}
