package sandbox

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/atoll-net/atoll/pkg/sandbox/place"
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
	for _, wire := range []struct{ bridge, inside, outside string }{
		{nodeBridge, nodeInterface, n.name + "-" + nodeInterface},
		{tunnelBridge, tunnelInterface, n.name + "-" + tunnelInterface},
	} {
		bridge, err := central.LinkByName(wire.bridge)
		if err != nil {
			return fmt.Errorf("find bridge %s: %w", wire.bridge, err)
		}
		veth := &netlink.Veth{
			LinkAttrs:     netlink.LinkAttrs{Name: wire.outside, MTU: underlayMTU, MasterIndex: bridge.Attrs().Index},
			PeerName:      wire.inside,
			PeerMTU:       underlayMTU,
			PeerNamespace: netlink.NsFd(there.handle),
		}
		if err := central.LinkAdd(veth); err != nil {
			return fmt.Errorf("make veth %s: %w", wire.outside, err)
		}
		if err := central.up(wire.outside); err != nil {
			return err
		}
		if err := there.up(wire.inside); err != nil {
			return err
		}
		if err := central.completeChecksums(wire.outside); err != nil {
			return err
		}
		if err := there.completeChecksums(wire.inside); err != nil {
			return err
		}
	}
	if err := there.up("lo"); err != nil {
		return err
	}
	if err := there.address(nodeInterface, netip.PrefixFrom(n.address(), nodeNet.Bits())); err != nil {
		return err
	}
	// The control plane forwards nothing; but programs look for a default route to learn the node's address.
	if err := there.RouteAdd(&netlink.Route{Gw: net.IP(centralAddress().AsSlice())}); err != nil {
		return fmt.Errorf("add default route: %w", err)
	}
	return nil
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

func (e *linkEditor) up(name string) error {
	link, err := e.LinkByName(name)
	if err == nil {
		err = e.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("bring up %s in %s: %w", name, e.name, err)
	}
	return nil
}

func (e *linkEditor) address(name string, address netip.Prefix) error {
	link, err := e.LinkByName(name)
	if err == nil {
		err = e.AddrReplace(link, &netlink.Addr{IPNet: &net.IPNet{
			IP: address.Addr().AsSlice(), Mask: net.CIDRMask(address.Bits(), address.Addr().BitLen()),
		}})
	}
	if err != nil {
		return fmt.Errorf("give %s to %s in %s: %w", address, name, e.name, err)
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
