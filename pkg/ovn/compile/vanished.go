package compile

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// The two ends of what joins the default Network's router to that of vanished endpoints. No route leads there.
var vanishedEnds = [2]netip.Addr{netip.MustParseAddr("169.254.102.1"), netip.MustParseAddr("169.254.102.2")}

// VanishedEndpoints gives the load balancer of endpoints by TCP whose pods have vanished, once for all Networks: when an endpoint
// goes out of it, nodes forget who was led there. It is there whether anything is in it or not, as a drain load balancer is.
//
// One is enough, since ovn-controller has Open vSwitch forget a virtual address with its endpoint in all zones of connection
// tracking. ovn-controller knows the load balancers of what hangs together with a node's own ports, and the node has one in the
// default Network l. So the load balancer is at a router that is joined to that Network's. No packet comes there: the only
// addresses that lead there are those of the port. At the default Network's own router, packets that no switch has translated
// would be led to an address that a tenant wrote as an endpoint, past all walls.
func VanishedEndpoints(l Layout) nb.Facts {
	key := func(name string) string { return l.UID + "/:vanished/" + name }
	protocol := string(model.TCP)
	lb := &nb.LoadBalancer{
		UUID: vanishedRef(l).UUID, Name: l.Name + ":vanished", Protocol: &protocol, ExternalIDs: idsOf(l),
		Options: map[string]string{"ct_flush": "true", "neighbor_responder": "none"},
	}
	router := &nb.LogicalRouter{
		UUID: nb.UUID(nb.TableLogicalRouter, key("router")), Name: l.Name + ":vanished", ExternalIDs: idsOf(l),
		Options: map[string]string{"always_learn_from_arp_request": "false", "dynamic_neigh_routers": "true"},
	}
	names := [2]string{l.Name + ":vanished", l.Name + ":vanished:router"}
	facts := nb.Facts{Rows: []nb.Row{lb, router}, Members: []nb.Member{nb.RefOf(router).Holds(nb.ColumnLoadBalancers, lb.UUID)}}
	for i, holder := range []nb.Ref{routerRef(l), nb.RefOf(router)} {
		port := &nb.LogicalRouterPort{
			UUID: nb.UUID(nb.TableLogicalRouterPort, key(names[i])), Name: names[i], MAC: digestMAC(macRouter, key(names[i])),
			Networks: []string{netip.PrefixFrom(vanishedEnds[i], 32).String()}, Peer: &names[1-i], ExternalIDs: idsOf(l),
		}
		facts.Rows = append(facts.Rows, port)
		facts.Members = append(facts.Members, holder.Holds(nb.ColumnPorts, port.UUID))
	}
	return facts
}

func vanishedRef(l Layout) nb.Ref {
	return nb.Ref{Table: nb.TableLoadBalancer, UUID: nb.UUID(nb.TableLoadBalancer, routerRef(l).UUID+"/vanished")}
}

// Vanished puts a Service's endpoints by TCP, by its ports, into the load balancer of those that have vanished, which the default
// Network l has. They are there by its ClusterIPs alone, which nobody else has: an address of a Network's own, and the same
// endpoint, may be somebody else's in another Network.
func Vanished(l Layout, s model.Service, endpoints map[uint16][]netip.AddrPort) []nb.Member {
	var out []nb.Member
	for _, port := range slices.Sorted(maps.Keys(endpoints)) {
		for _, ip := range s.ClusterIPs {
			if backends := backendsOf(ip.Is4(), endpoints[port]); backends != "" {
				out = append(out, vanishedRef(l).Holds(nb.ColumnVips, nb.Pair(netip.AddrPortFrom(ip, port).String(), backends)))
			}
		}
	}
	return out
}
