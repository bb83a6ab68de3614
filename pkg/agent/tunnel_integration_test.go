//go:build integration

package agent

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// neighbour is a second node: at the other end of the first one's underlay, with a chassis of the same OVN, in a network
// namespace of its own.
func (n *node) neighbour() *node {
	n.tb.Helper()
	other := &node{
		tb: n.tb, name: "node2", netns: newNetns(n.tb), encapIP: "192.0.2.2",
		datapath: n.datapath, dir: n.tb.TempDir(), central: n.central, parts: n.parts,
	}
	target, err := ns.GetNS(other.netns)
	must(n.tb, err)
	defer target.Close()
	end, err := netlink.LinkByName("underlay-peer")
	must(n.tb, err)
	must(n.tb, netlink.LinkSetNsFd(end, int(target.Fd())))
	must(n.tb, other.inside(func() error {
		if lo, err := netlink.LinkByName("lo"); err != nil || netlink.LinkSetUp(lo) != nil {
			return fmt.Errorf("bring up lo: %w", err)
		}
		return giveAddress("underlay-peer", other.encapIP)
	}))
	other.serve()
	if n.datapath == ovn.UserspaceDatapath {
		n.bridgeUnderlay("underlay")
		other.bridgeUnderlay("underlay-peer")
	}
	return other
}

// inside runs f in the node's network namespace.
func (n *node) inside(f func() error) error {
	if n.netns == "" {
		return f()
	}
	return ns.WithNetNSPath(n.netns, func(ns.NetNS) error { return f() })
}

// bridgeUnderlay puts the tunnels' address on a bridge that has the underlay as a port: the userspace datapath sends its
// tunnels' packets by its own bridges only.
func (n *node) bridgeUnderlay(port string) {
	n.tb.Helper()
	const bridge = "br-phys"
	n.vsctl("add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type="+n.datapath, "--", "add-port", bridge, port)
	// Its interface outlives ovs-vswitchd otherwise.
	n.tb.Cleanup(func() { n.vsctl("del-br", bridge) })
	must(n.tb, n.inside(func() error {
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		// The kernel, too, sees what arrives, and would say that the bridge's address is the link's.
		if err := netlink.LinkSetARPOff(link); err != nil {
			return err
		}
		for _, address := range addresses {
			if err := netlink.AddrDel(link, &address); err != nil {
				return err
			}
		}
		return giveAddress(bridge, n.encapIP)
	}))
}

// giveAddress gives an interface of the calling thread's namespace an address of the underlay, and brings it up.
func giveAddress(name, ip string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr(ip + "/24")
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrAdd(link, address), netlink.LinkSetUp(link))
}

// What leaves a node in a tunnel arrives: small and large, by IPv4 and IPv6, and nothing is larger than what fits.
func TestPodsOnTwoNodes(t *testing.T) {
	n := newNode(t)
	other := n.neighbour()
	n.startOVN()
	other.joinOVN()
	a, b := n.agent(), other.agent()
	here, there := newPod(t, a, "here", 5), newPod(t, b, "there", 6)
	n.addLogicalPort("red", here)
	other.addLogicalPort("red", there)
	_, err := a.Add(t.Context(), here.request)
	must(t, err)
	must(t, other.inside(func() error {
		_, err := b.Add(t.Context(), there.request)
		return err
	}))
	// Each node learns of the other's port a moment after its own is installed.
	for range 6 {
		if err = talk(t, here, there); err == nil {
			break
		}
		t.Logf("pods do not talk yet: %v", err)
	}
	must(t, err)
	must(t, talk(t, there, here))

	const headers = 20 + 8 // of IPv4 and UDP
	fits := testUnderlayMTU - model.GeneveOverhead - headers
	must(t, sendWhole(t, here, there, fits))
	must(t, sendWhole(t, there, here, fits))
	if err := sendWhole(t, here, there, fits+1); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("a packet that is too large for the tunnel: %v", err)
	}
}

// sendWhole sends one datagram, which nobody may cut up, from one pod to another, and waits until it is there.
func sendWhole(tb testing.TB, from, to *testPod, size int) error {
	tb.Helper()
	var received net.PacketConn
	must(tb, to.inside(func() (err error) {
		received, err = net.ListenPacket("udp4", to.address()+":0")
		return err
	}))
	defer received.Close()
	err := from.inside(func() error {
		conn, err := net.Dial("udp4", received.LocalAddr().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		raw, err := conn.(*net.UDPConn).SyscallConn()
		if err != nil {
			return err
		}
		var setErr error
		err = raw.Control(func(fd uintptr) {
			setErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		})
		if err := errors.Join(err, setErr); err != nil {
			return err
		}
		_, err = conn.Write(make([]byte, size))
		return err
	})
	if err != nil {
		return err
	}
	defer wait.Limit(received, 5*time.Second)()
	got, _, err := received.ReadFrom(make([]byte, 1<<16))
	if err == nil && got != size {
		err = fmt.Errorf("%d bytes arrived of %d", got, size)
	}
	return err
}
