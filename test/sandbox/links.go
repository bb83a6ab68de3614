package sandbox

import (
	"fmt"
	"net/netip"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go4.org/netipx"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/test/sandbox/place"
)

// Interfaces of a node: eth0 for Kubernetes and OVSDB, eth1 below br-phys for Geneve. In the control plane's
// namespace each has a bridge, to which all nodes are wired.
const (
	nodeInterface   = "eth0"
	tunnelInterface = "eth1"
	nodeBridge      = "br-nodes"
	tunnelBridge    = "br-tunnels"
)

// makeNamespaces makes the network namespaces of all places, wired together. Nothing of it is in the namespace
// of the machine, not even for a moment.
func makeNamespaces(r record) error {
	for _, p := range r.places() {
		if err := makeNamespace(namespace(r.Options.Name, p)); err != nil {
			return err
		}
	}
	central, err := openNamespace(namespace(r.Options.Name, Central))
	if err != nil {
		return err
	}
	defer central.Close()
	if err := central.up("lo"); err != nil {
		return err
	}
	for _, name := range []string{nodeBridge, tunnelBridge} {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: underlayMTU}}
		if err := central.LinkAdd(bridge); err != nil {
			return fmt.Errorf("make bridge %s: %w", name, err)
		}
		if err := central.up(name); err != nil {
			return err
		}
	}
	if err := central.address(nodeBridge, netip.PrefixFrom(centralAddress(), nodeNet.Bits())); err != nil {
		return err
	}
	if err := wireOutside(r.Options.Name, central); err != nil {
		return fmt.Errorf("wire the outside: %w", err)
	}
	for _, n := range nodesUpTo(r.Options.Nodes) {
		if err := wireNode(r.Options.Name, central, n); err != nil {
			return fmt.Errorf("wire node %s: %w", n.name, err)
		}
	}
	return nil
}

func wireNode(sandbox string, central *linkEditor, n node) error {
	there, err := openNamespace(namespace(sandbox, n.name))
	if err != nil {
		return err
	}
	defer there.Close()
	if err := there.up("lo"); err != nil {
		return err
	}
	for _, w := range nodeWires(n) {
		if err := w.join(central, there); err != nil {
			return err
		}
	}
	if err := there.silence(tunnelInterface); err != nil {
		return err
	}
	for _, address := range []netip.Prefix{
		netip.PrefixFrom(n.address(), nodeNet.Bits()), netip.PrefixFrom(n.address6(), nodeNet6.Bits()),
	} {
		if err := there.address(nodeInterface, address); err != nil {
			return err
		}
	}
	for _, via := range []netip.Addr{gateway(), gateway6()} {
		if err := there.RouteAdd(&netlink.Route{Gw: via.AsSlice()}); err != nil {
			return fmt.Errorf("add default route: %w", err)
		}
	}
	return nil
}

// wireOutside gives the outside its end of the nodes' network, and its own addresses.
func wireOutside(sandbox string, central *linkEditor) error {
	there, err := openNamespace(namespace(sandbox, Outside))
	if err != nil {
		return err
	}
	defer there.Close()
	if err := there.up("lo"); err != nil {
		return err
	}
	if err := (wire{nodeBridge, Outside, nodeInterface}).join(central, there); err != nil {
		return err
	}
	for _, address := range []netip.Addr{outsideServer, outsideServer6, outsideDNS, outsideDNS6} {
		if err := there.address("lo", netip.PrefixFrom(address, address.BitLen())); err != nil {
			return err
		}
	}
	for _, way := range []struct{ gateway, server netip.Addr }{{gateway(), outsideServer}, {gateway6(), outsideServer6}} {
		network := nodeNet
		if way.gateway.Is6() {
			network = nodeNet6
		}
		if err := there.address(nodeInterface, netip.PrefixFrom(way.gateway, network.Bits())); err != nil {
			return err
		}
		if err := there.answerFrom(nodeInterface, network, way.server); err != nil {
			return err
		}
	}
	return nil
}

// wire is a cable between a bridge of the control plane and an interface of another place.
type wire struct{ bridge, place, inside string }

func nodeWires(n node) []wire {
	return []wire{{nodeBridge, n.name, nodeInterface}, {tunnelBridge, n.name, tunnelInterface}}
}

// outside is the name of the control plane's end.
func (w wire) outside() string { return w.place + "-" + w.inside }

func (w wire) join(central, there *linkEditor) error {
	bridge, err := central.LinkByName(w.bridge)
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", w.bridge, err)
	}
	veth := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: w.outside(), MTU: underlayMTU, MasterIndex: bridge.Attrs().Index},
		PeerName:      w.inside,
		PeerMTU:       underlayMTU,
		PeerNamespace: netlink.NsFd(there.handle),
	}
	if err := central.LinkAdd(veth); err != nil {
		return fmt.Errorf("make veth %s: %w", w.outside(), err)
	}
	if err := central.up(w.outside()); err != nil {
		return err
	}
	if err := there.up(w.inside); err != nil {
		return err
	}
	if err := central.completeChecksums(w.outside()); err != nil {
		return err
	}
	return there.completeChecksums(w.inside)
}

// linkEditor edits the interfaces of one network namespace from outside.
type linkEditor struct {
	*netlink.Handle
	name   string
	handle netns.NsHandle
}

func openNamespace(name string) (*linkEditor, error) {
	ns, err := netns.GetFromName(name)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", name, err)
	}
	handle, err := netlink.NewHandleAt(ns)
	if err != nil {
		ns.Close()
		return nil, fmt.Errorf("open network namespace %s: %w", name, err)
	}
	return &linkEditor{Handle: handle, name: name, handle: ns}, nil
}

func (e *linkEditor) Close() {
	e.Handle.Close()
	e.handle.Close()
}

// change does something to a link; what names that in the error.
func (e *linkEditor) change(name, what string, do func(netlink.Link) error) error {
	link, err := e.LinkByName(name)
	if err == nil {
		err = do(link)
	}
	if err != nil {
		return fmt.Errorf("%s in %s: %w", what, e.name, err)
	}
	return nil
}

func (e *linkEditor) up(name string) error { return e.change(name, "bring up "+name, e.LinkSetUp) }

// silence keeps the kernel from answering on a link which of its addresses are where. Below a bridge of the userspace
// datapath the kernel, too, sees what arrives: it would say that the bridge's address is the link's, and whoever believes
// that reaches nothing.
func (e *linkEditor) silence(name string) error {
	return e.change(name, "turn off ARP on "+name, e.LinkSetARPOff)
}

func (e *linkEditor) address(name string, address netip.Prefix) error {
	assigned := &netlink.Addr{IPNet: netipx.PrefixIPNet(address)}
	if address.Addr().Is6() {
		assigned.Flags = unix.IFA_F_NODAD // nobody else has it: it may be used at once
	}
	return e.change(name, fmt.Sprintf("give %s to %s", address, name), func(link netlink.Link) error { return e.AddrReplace(link, assigned) })
}

// answerFrom makes an address the source of what is sent to a network on a link, when the sender has not chosen one: a
// UDP server that listens on all addresses answers from that which its client knows.
func (e *linkEditor) answerFrom(name string, to netip.Prefix, source netip.Addr) error {
	link, err := e.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s in %s: %w", name, e.name, err)
	}
	route := &netlink.Route{
		LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Src: source.AsSlice(),
		Dst: netipx.PrefixIPNet(to),
	}
	if source.Is6() {
		route.Priority = 256 // the kernel's own for such a route, which this one replaces
	}
	if err := e.RouteReplace(route); err != nil {
		return fmt.Errorf("route %s in %s: %w", to, e.name, err)
	}
	return nil
}

// completeChecksums makes an interface send complete checksums: what Open vSwitch's userspace datapath receives
// with a partial one it cannot complete, and TCP and UDP then fail where ping works.
func (e *linkEditor) completeChecksums(name string) error {
	return place.InNamespace(e.name, func() error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return fmt.Errorf("open ethtool: %w", err)
		}
		defer tool.Close()
		if err := tool.Change(name, map[string]bool{"tx-checksum-ip-generic": false}); err != nil {
			return fmt.Errorf("turn off checksum offload of %s: %w", name, err)
		}
		return nil
	})
}

// makeNamespace makes a named network namespace, as ip-netns(8) does.
func makeNamespace(name string) error {
	done := make(chan error, 1)
	go func() { done <- newNamed(name) }()
	return <-done
}
