package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/digitalocean/go-openvswitch/ovs"
	"github.com/vishvananda/netlink"
	"go4.org/netipx"
)

const (
	physicalBridge    = "br-phys"
	integrationBridge = "br-int"
)

// makeBridges gives a node its bridges: br-phys with the tunnels' interface and address, and br-int, which
// OVN fills. It changes nothing that is right already.
func makeBridges(tunnel netip.Prefix) error {
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

// lookForSwitch is how often KeepBridges looks whether a switch has come anew.
const lookForSwitch = 200 * time.Millisecond

// KeepBridges makes a node's bridges whenever its switch, which runs in a pod, has come anew. It ends with ctx.
func KeepBridges(ctx context.Context, tunnel netip.Prefix) error {
	var config net.ListenConfig
	mark, err := config.Listen(ctx, "unix", tunnelSocket)
	if err != nil {
		return fmt.Errorf("say that it is there: %w", err)
	}
	defer mark.Close()
	tick := time.NewTicker(lookForSwitch)
	defer tick.Stop()
	said := ""
	for {
		if !haveBridges(tunnel) && listens(switchSocket) {
			problem := ""
			if err := makeBridges(tunnel); err != nil {
				problem = err.Error()
			}
			if problem != said {
				fmt.Fprintln(os.Stderr, cmp.Or(problem, "the bridges are there"))
			}
			said = problem
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// haveBridges reports whether the tunnels' interface is there, up and with its address. The process of the switch has it.
func haveBridges(tunnel netip.Prefix) bool {
	link, err := netlink.LinkByName(physicalBridge)
	if err != nil || link.Attrs().Flags&net.FlagUp == 0 {
		return false
	}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	return err == nil &&
		slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return a.IPNet.String() == netipx.PrefixIPNet(tunnel).String() })
}

// listens reports whether somebody accepts connections at a socket.
func listens(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
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
