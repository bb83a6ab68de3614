package compile

import (
	"net/netip"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// edgeName is the name of the switch at a Network's edge, and of the router's port in it. Switches of subnets have a
// slash in their names.
func edgeName(network string) string { return network + ":edge" }

// edgeUUID is that of the switch at a Network's edge.
func edgeUUID(l Layout) string { return nb.UUID(nb.TableLogicalSwitch, l.UID+"/:edge") }

// edge gives the rows by which pods leave their Network: a switch that joins the router to the porthole, and a default
// route to it for each IP family that the Network has. An address of the infrastructure that lies in a subnet needs a route of
// its own: the router would look for it among the subnet's pods.
//
// The porthole is one localport: it is present on each node under the same addresses, and what a pod sends there stays
// on the pod's node. So a Network has one row for all of them. (ovn-nb(5), ovn-architecture(7).)
func edge(l Layout) nb.Facts {
	key := func(name string) string { return l.UID + "/:" + name }
	uuid := edgeUUID(l)
	sw := &nb.LogicalSwitch{
		UUID:        uuid,
		Name:        edgeName(l.Name),
		OtherConfig: switchConfig(l, uuid),
		ExternalIDs: idsOf(l),
	}
	port := &nb.LogicalRouterPort{
		UUID:        nb.UUID(nb.TableLogicalRouterPort, key("edge")),
		Name:        edgeName(l.Name),
		MAC:         model.EdgeMAC,
		ExternalIDs: idsOf(l),
	}
	// OVN gives the port its address of IPv6 by itself. That of IPv4 is there in each Network: agents ask it whether the router
	// answers.
	port.Networks = []string{model.EdgeAddresses()[0].String()}
	if l.Joined {
		port.Options = map[string]string{"route_table": ownRoutes}
	}
	peer := &nb.LogicalSwitchPort{
		UUID:        nb.UUID(nb.TableLogicalSwitchPort, key("edge")),
		Name:        edgeName(l.Name) + ":router",
		Type:        "router",
		Addresses:   []string{"router"},
		Options:     map[string]string{"router-port": port.Name},
		ExternalIDs: idsOf(l),
	}
	porthole := &nb.LogicalSwitchPort{
		UUID:        nb.UUID(nb.TableLogicalSwitchPort, key("porthole")),
		Name:        model.PortholePortName(l.Name),
		Type:        "localport",
		ExternalIDs: idsOf(l),
	}
	words := []string{model.PortholeMAC}
	for _, a := range model.PortholeAddresses() {
		if a.Addr().Is4() || l.Has(false) {
			words = append(words, a.Addr().String())
		}
	}
	porthole.Addresses = []string{strings.Join(words, " ")}
	facts := nb.Facts{
		Rows: []nb.Row{sw, port, peer, porthole},
		Members: []nb.Member{
			routerRef(l).Holds(nb.ColumnPorts, port.UUID),
			nb.RefOf(sw).Holds(nb.ColumnPorts, peer.UUID),
			nb.RefOf(sw).Holds(nb.ColumnPorts, porthole.UUID),
		},
	}
	var prefixes []netip.Prefix
	for _, anywhere := range [2]netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if l.Has(anywhere.Is4()) {
			prefixes = append(prefixes, netip.PrefixFrom(anywhere, 0))
		}
	}
	for _, a := range l.Through {
		prefixes = append(prefixes, netip.PrefixFrom(a, a.BitLen()))
	}
	for _, prefix := range prefixes {
		porthole := model.PortholeAddresses()[0]
		if prefix.Addr().Is6() {
			porthole = model.PortholeAddresses()[1]
		}
		route := &nb.StaticRoute{
			UUID:     nb.UUID(nb.TableStaticRoute, key(prefix.String())),
			IPPrefix: prefix.String(),
			Nexthop:  porthole.Addr().String(),
			// The next hop of IPv6 is a link-local address, which could be on any port.
			OutputPort:  &port.Name,
			ExternalIDs: idsOf(l),
		}
		facts.Rows = append(facts.Rows, route)
		facts.Members = append(facts.Members, routerRef(l).Holds(nb.ColumnStaticRoutes, route.UUID))
	}
	return facts
}

// Has reports whether a subnet of the Network has addresses of IPv4, or else of IPv6.
func (l Layout) Has(v4 bool) bool {
	for _, r := range l.Ranges() {
		if r.CIDR.Addr().Is4() == v4 {
			return true
		}
	}
	return false
}
