package compile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// macNode is the first octet of the MAC addresses of nodes' interfaces: locally administered, unicast.
const macNode = 0x06

// NodeMAC is the MAC address of a node's interface in the default Network: a digest of the node's name.
func NodeMAC(node string) string { return digestMAC(macNode, node) }

// Node gives the rows of a node in the default Network l: the port of its interface there, in the first subnet, and a
// route to the faces of its pods.
//
// The port has no port security: what reaches the node from outside keeps its own source address on the way to a pod.
func Node(l Layout, node string, n model.NodeNetwork) nb.Facts {
	key := l.UID + "/node/" + node
	port := &nb.LogicalSwitchPort{
		UUID:        nodePortUUID(l, node),
		Name:        model.NodePortName(l.Name, node),
		Addresses:   []string{portAddress(n.MAC, n.Addresses)},
		Options:     map[string]string{"requested-chassis": node},
		ExternalIDs: ids(nb.NodeOwner(node), n.NodeUID, l.Name),
	}
	askForKey(port, l.Subnets[0], n.Addresses)
	facts := nb.Facts{
		Rows:    []nb.Row{port},
		Members: []nb.Member{switchRef(l, l.Subnets[0].Name).Holds(nb.ColumnPorts, port.UUID)},
	}
	for _, block := range n.Faces {
		hop, ok := addressOf(n.Addresses, block.Addr().Is4())
		if !ok {
			continue
		}
		route := &nb.StaticRoute{
			UUID:        nb.UUID(nb.TableStaticRoute, key+"/"+block.String()),
			IPPrefix:    block.String(),
			Nexthop:     hop.String(),
			ExternalIDs: ids(nb.NodeOwner(node), n.NodeUID, l.Name),
		}
		facts.Rows = append(facts.Rows, route)
		facts.Members = append(facts.Members, routerRef(l).Holds(nb.ColumnStaticRoutes, route.UUID))
	}
	return facts
}

// NodeOf returns what a node has in the default Network according to the rows that Node made. It is false if there is no port in
// the Network of that UID.
func NodeOf(networkUID, node string, rows []nb.Row) (n model.NodeNetwork, ok bool) {
	for _, row := range rows {
		switch row := row.(type) {
		case *nb.LogicalSwitchPort:
			if row.UUID != nodePortUUID(Layout{UID: networkUID}, node) || len(row.Addresses) != 1 {
				continue
			}
			words := strings.Fields(row.Addresses[0])
			for _, word := range words[min(1, len(words)):] {
				if a, err := netip.ParseAddr(word); err == nil {
					n.Addresses = append(n.Addresses, netip.PrefixFrom(a, a.BitLen()))
				}
			}
			n.NodeUID, n.Network, n.NetworkUID = row.ExternalIDs[nb.KeyUID], row.ExternalIDs[nb.KeyNetwork], networkUID
		case *nb.StaticRoute:
			if block, err := netip.ParsePrefix(row.IPPrefix); err == nil {
				n.Faces = append(n.Faces, block)
			}
		}
	}
	slices.SortFunc(n.Faces, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return n, len(n.Addresses) > 0
}

func nodePortUUID(l Layout, node string) string {
	return nb.UUID(nb.TableLogicalSwitchPort, l.UID+"/node/"+node)
}

// NodeAccess gives the ACL by which a node reaches its own pods in a flat Network, whatever a policy says: those whose
// ports are bound where the node's own is, in the default Network home. Other nodes are judged by their addresses.
func NodeAccess(l Layout, home, node string, n model.NodeNetwork) nb.Facts {
	b := aclBuilder{layout: l, owner: nb.NodeOwner(node), uid: n.NodeUID, origin: nb.Origin{Policy: nb.OwnNode}}
	var facts nb.Facts
	for _, prefix := range n.Addresses {
		family := familyOf(prefix.Addr().Is4())
		facts.Add(b.acl(JudgedGroup(), "own/"+family, model.PolicyIngress, verdictOf(model.Allow), TierPlatform, PriorityPlatform,
			fmt.Sprintf("outport == @%s && %s.src == %s && is_chassis_resident(%q)",
				GroupName(l, JudgedGroup()), family, prefix.Addr(), model.NodePortName(home, node))))
	}
	return facts
}

func addressOf(prefixes []netip.Prefix, v4 bool) (netip.Addr, bool) {
	for _, p := range prefixes {
		if p.Addr().Is4() == v4 {
			return p.Addr(), true
		}
	}
	return netip.Addr{}, false
}
