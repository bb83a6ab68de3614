package compile

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Backends are what a Service has in one Network: where each of its ports leads.
type Backends struct {
	Layout Layout
	// Ports: for each port of the Service, by its place there, the endpoints that take new connections.
	Ports [][]netip.AddrPort
	// Near: for each port, what leads clients of some places elsewhere than others, in place of Ports, which has all of them; nil
	// where nothing does.
	Near []NearByFamily
	// Waiting are variables that nodes do not have yet: virtual addresses that need one lead all to the same endpoints meanwhile, or
	// nobody anywhere if the Service is Local.
	Waiting map[Variable]struct{}
	// VIPs are further virtual addresses that the Service has there.
	VIPs []netip.Addr
	// Left: for each port, endpoints by UDP that take none any more, and that nodes are to forget when they are not named here
	// any more; nil when there are none.
	Left [][]netip.AddrPort
	// Idle: its load balancers are there and lead nowhere. One that was deleted could not come back for ten seconds.
	Idle bool
}

// Service gives the rows of a Service's virtual addresses: in each Network where it is known, one load balancer for
// each protocol. A port without endpoints refuses connections.
//
// OVN keeps all backends of a virtual address in one text: a change of an endpoint rewrites that text, and neither the other
// addresses and ports of its Service nor those of others.
func Service(s model.Service, known []Backends) nb.Facts {
	var facts nb.Facts
	for _, b := range known {
		facts.Add(leftOf(s, b))
		byProtocol := map[model.Protocol]map[string]string{}
		for _, v := range vipsOf(s, b) {
			protocol := s.Ports[v.port].Protocol
			if byProtocol[protocol] == nil {
				byProtocol[protocol] = map[string]string{}
			}
			if b.near(s, v) == nil {
				byProtocol[protocol][v.address.String()] = backendsOf(v.address.Addr().Is4(), b.Ports[v.port])
			}
		}
		for _, protocol := range []model.Protocol{model.TCP, model.UDP, model.SCTP} {
			if byProtocol[protocol] == nil {
				continue
			}
			lb := loadBalancer(s, b.Layout, protocol)
			facts.Rows = append(facts.Rows, lb)
			if b.Idle {
				clear(byProtocol[protocol])
			}
			facts.Members = append(facts.Members, balanced(b.Layout, lb, byProtocol[protocol])...)
			if s.Local || s.Prefers != model.PrefersNone {
				facts.Add(nearBalancers(s, b, protocol))
			}
		}
	}
	return facts
}

// balanced gives a load balancer its virtual addresses, and its place among those of a Network.
func balanced(l Layout, lb *nb.LoadBalancer, backends map[string]string) []nb.Member {
	var out []nb.Member
	for _, vip := range slices.Sorted(maps.Keys(backends)) {
		out = append(out, nb.RefOf(lb).Holds(nb.ColumnVips, nb.Pair(vip, backends[vip])))
	}
	return append(out, groupRef(l).Holds(nb.ColumnLoadBalancers, lb.UUID))
}

// vip is a virtual address and the place of the Service's port that it stands for.
type vip struct {
	address netip.AddrPort
	port    int
}

// vipsOf are the virtual addresses of a Service in a Network; of two that are the same the last one counts.
func vipsOf(s model.Service, b Backends) []vip {
	var out []vip
	addresses := slices.Concat(s.ClusterIPs, b.VIPs)
	if b.Layout.ByRanges() {
		addresses = b.VIPs
	}
	for i, port := range s.Ports {
		for _, ip := range addresses {
			out = append(out, vip{netip.AddrPortFrom(ip, port.Port), i})
		}
	}
	return out
}

// leftOf gives the load balancer of endpoints by UDP that have been left; nothing for a Service without UDP.
func leftOf(s model.Service, b Backends) nb.Facts {
	known, pairs := false, map[string]string{}
	for _, v := range vipsOf(s, b) {
		if s.Ports[v.port].Protocol != model.UDP {
			continue
		}
		known = true
		if b.Left != nil {
			pairs[v.address.String()] = backendsOf(v.address.Addr().Is4(), b.Left[v.port])
		}
	}
	if !known || b.Layout.offered {
		// Consumers have none of the provider's routers. A node forgets clients when its own load balancer changes.
		return nb.Facts{}
	}
	return drainLoadBalancer(b.Layout, loadBalancer(s, b.Layout, model.UDP), b.Layout.UID+"/"+s.UID, pairs)
}

// clientField tells a client by its MAC address, which port security makes sure of: in the switch where a virtual address is
// translated, what a pod sends has its own, in either IP family. OVN has fields for IPv6 addresses only since 24.09.
//
// The other way that OVN has, affinity_timeout, drops the packet by which it learns a client; 25.03 drops those that
// repeat it, too, so that the first connection of each client never comes about.
const clientField = "eth_src"

func loadBalancer(s model.Service, l Layout, protocol model.Protocol) *nb.LoadBalancer {
	text := string(protocol)
	lb := &nb.LoadBalancer{
		UUID:        nb.UUID(nb.TableLoadBalancer, l.UID+"/"+s.UID+"/"+text),
		Name:        l.Name + "/" + s.Key.String() + ":" + text,
		Protocol:    &text,
		Options:     optionsOf(protocol),
		ExternalIDs: ids(nb.ServiceOwner(s.Key.Namespace, s.Key.Name), s.UID, l.itself()),
	}
	if s.Affinity > 0 {
		lb.SelectionFields = []string{clientField}
	}
	return lb
}

// optionsOf are those of a load balancer of virtual addresses. (ovn-nb(5).)
func optionsOf(protocol model.Protocol) map[string]string {
	// Without endpoints a client hears so at once.
	options := map[string]string{"reject": "true"}
	if protocol == model.UDP {
		// Packets of one client go on to an endpoint that has left for as long as they keep coming, unless nodes forget
		// them then. What has connections keeps them to their end. (Since OVN 23.06.)
		options["ct_flush"] = "true"
	}
	return options
}

// backendsOf is the text of the endpoints of one IP family, in order, each once.
func backendsOf(v4 bool, endpoints []netip.AddrPort) string {
	var texts []string
	for _, a := range endpointsOf(v4, endpoints) {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ",")
}
