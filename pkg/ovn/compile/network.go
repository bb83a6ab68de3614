package compile

import (
	"net/netip"
	"strings"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// SwitchName is the name of a subnet's logical switch.
func SwitchName(network, subnet string) string { return network + "/" + subnet }

// routerPortName is the name of the port by which a Network's router is in a subnet; peerPortName that of
// the port of the subnet's switch on the other side. No interface can have a colon in its name, so no pod's
// port is ever called like that.
func routerPortName(network, subnet string) string { return SwitchName(network, subnet) + ":gateway" }

func peerPortName(network, subnet string) string { return SwitchName(network, subnet) + ":router" }

// Network gives the rows of a Network: one router; for each subnet one switch and the pair of ports that joins it to
// the router; the edge, by which pods leave; and the group of its load balancers.
//
// All of it is there from the first pod on, since a new switch costs ovn-northd a recomputation of everything and a pod
// does not. None of it depends on the number of nodes.
//
// A flat Network beside the default one has switches alone: they hang on the default Network's router, with its load balancers and
// its way out. faces are all faces' ranges, which pods of other Networks come from.
func Network(l Layout, faces []netip.Prefix) nb.Facts {
	key := func(name string) string { return l.UID + "/" + name }
	group := &nb.LoadBalancerGroup{UUID: groupRef(l).UUID, Name: nb.GroupName(l.Name, l.UID)}
	router := &nb.LogicalRouter{
		UUID: routerRef(l).UUID,
		Name: l.Name,
		Options: map[string]string{
			// A pod's address is in its port's row: the router need not learn it from ARP requests of
			// others, nor hold a flow for every neighbour beforehand. (ovn-nb(5).)
			"always_learn_from_arp_request": "false",
			"dynamic_neigh_routers":         "true",
		},
		ExternalIDs: idsOf(l),
	}
	l.askForNumber(router.Options, router.UUID)
	var facts nb.Facts
	if l.Home == nil {
		facts.Rows = []nb.Row{router, group}
		facts.Add(faceBalancers(l))
		facts.Add(retainLoadBalancer(l))
	}
	for _, s := range l.Subnets {
		sw := &nb.LogicalSwitch{
			UUID:        switchRef(l, s.Name).UUID,
			Name:        SwitchName(l.Name, s.Name),
			OtherConfig: switchConfig(l, switchRef(l, s.Name).UUID),
			ExternalIDs: idsOf(l),
		}
		port := &nb.LogicalRouterPort{
			UUID:        nb.UUID(nb.TableLogicalRouterPort, key(s.Name)),
			Name:        routerPortName(l.Name, s.Name),
			MAC:         routerMAC(l, s.Name),
			ExternalIDs: idsOf(l),
		}
		var gateways []netip.Addr
		for _, r := range s.Ranges {
			gateways = append(gateways, r.Gateway)
			port.Networks = append(port.Networks, netip.PrefixFrom(r.Gateway, r.CIDR.Bits()).String())
		}
		peer := &nb.LogicalSwitchPort{
			UUID:        peerPortUUID(l, s.Name),
			Name:        peerPortName(l.Name, s.Name),
			Type:        "router",
			Addresses:   []string{"router"},
			Options:     map[string]string{"router-port": port.Name},
			ExternalIDs: idsOf(l),
		}
		// Nobody sends it a packet from another node. But it has the number of no pod.
		if key := s.portKey(gateways...); key != "" {
			peer.Options[nb.KeyTunnelKey] = key
		}
		facts.Rows = append(facts.Rows, sw, port, peer)
		facts.Members = append(facts.Members,
			nb.RefOf(router).Holds(nb.ColumnPorts, port.UUID),
			nb.RefOf(sw).Holds(nb.ColumnPorts, peer.UUID),
			nb.RefOf(sw).Holds(nb.ColumnLoadBalancerGroups, group.UUID),
		)
	}
	facts.Add(guard(l))
	facts.Add(strangers(l, faces))
	facts.Add(unserved(l))
	if l.Home == nil {
		facts.Add(edge(l))
	}
	return facts
}

// switchConfig is other_config of the switch with that UUID.
func switchConfig(l Layout, uuid string) map[string]string {
	config := map[string]string{"mcast_snoop": "false"}
	l.askForNumber(config, uuid)
	return config
}

// ids are the marks of a row: whose it is, the UID of that object, and in which Network.
func ids(owner nb.Owner, uid, network string) map[string]string {
	return map[string]string{nb.KeyOwner: owner.String(), nb.KeyUID: uid, nb.KeyNetwork: network}
}

func idsOf(l Layout) map[string]string { return ids(nb.NetworkOwner(l.Name), l.UID, l.Name) }

func routerRef(l Layout) nb.Ref {
	return nb.Ref{Table: nb.TableLogicalRouter, UUID: nb.UUID(nb.TableLogicalRouter, l.router().UID+"/"+l.router().Name)}
}

// groupRef points at the group of a Network's load balancers.
func groupRef(l Layout) nb.Ref {
	return nb.Ref{Table: nb.TableLoadBalancerGroup, UUID: nb.UUID(nb.TableLoadBalancerGroup, l.router().UID)}
}

// peerPortUUID is that of the port of a subnet's switch that leads to the router.
func peerPortUUID(l Layout, subnet string) string {
	return nb.UUID(nb.TableLogicalSwitchPort, l.UID+"/"+subnet)
}

// switchRef points at the switch of a subnet. Its UUID holds the Network's UID: a Network that is made again
// under its old name gets new switches, and no port of the old one can end up in them.
func switchRef(l Layout, subnet string) nb.Ref {
	return nb.Ref{Table: nb.TableLogicalSwitch, UUID: nb.UUID(nb.TableLogicalSwitch, l.UID+"/"+subnet)}
}

// portAddress is the MAC address of a port and its IP addresses, as OVN reads them.
func portAddress(mac string, addresses []netip.Prefix) string {
	words := []string{mac}
	for _, prefix := range addresses {
		words = append(words, prefix.Addr().String())
	}
	return strings.Join(words, " ")
}
