package policies

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// dnsPort is the port of DNS. (RFC 1035.)
const dnsPort = 53

// clusterDoors are the doors that every Network of type vpc may have: to the cluster's DNS and to the Kubernetes API.
func (s *Stage) clusterDoors() []compile.Door {
	var out []compile.Door
	dns, api := s.cluster.DNS, s.world.API
	s.eachPort(dns, func(dial netip.AddrPort, port model.ServicePort) {
		if pods := s.podsBehind(dns, port, dial.Addr()); dial.Port() == dnsPort && len(pods) > 0 {
			door := compile.Door{Dial: dial, Protocol: port.Protocol, Pods: pods}
			out = append(out, s.doubled(dns, door, model.NamesAddress6())...)
		}
	})
	s.eachPort(api, func(dial netip.AddrPort, port model.ServicePort) {
		var servers []netip.AddrPort
		s.eachEndpoint(api, port, func(e model.Endpoint, number uint16) {
			if e.Address.Is4() == dial.Addr().Is4() {
				servers = append(servers, netip.AddrPortFrom(e.Address, number))
			}
		})
		if len(servers) > 0 {
			slices.SortFunc(servers, netip.AddrPort.Compare)
			door := compile.Door{Dial: dial, Protocol: port.Protocol, Servers: servers}
			out = append(out, s.doubled(api, door, model.APIAddress6())...)
		}
	})
	return out
}

// doubled are a door, and the same one at the address of IPv6 by which Networks of IPv6 alone know it, if the Service has none.
func (s *Stage) doubled(key model.ServiceKey, d compile.Door, six netip.Addr) []compile.Door {
	if model.HasIPv6(s.world.Services.Service(key).ClusterIPs) {
		return []compile.Door{d}
	}
	other := d
	other.Dial = netip.AddrPortFrom(six, d.Dial.Port())
	return []compile.Door{d, other}
}

// forSix reports whether a door is there for Networks of IPv6 alone.
func forSix(d compile.Door) bool {
	return d.Dial.Addr() == model.NamesAddress6() || d.Dial.Addr() == model.APIAddress6()
}

// eachPort calls do for each port of each virtual address of a Service.
func (s *Stage) eachPort(key model.ServiceKey, do func(netip.AddrPort, model.ServicePort)) {
	service := s.world.Services.Service(key)
	if service == nil {
		return
	}
	for _, port := range service.Ports {
		for _, a := range service.ClusterIPs {
			do(netip.AddrPortFrom(a, port.Port), port)
		}
	}
}

// eachEndpoint calls do for each endpoint behind a port of a Service, with the number of its port.
func (s *Stage) eachEndpoint(key model.ServiceKey, port model.ServicePort, do func(model.Endpoint, uint16)) {
	for _, slice := range s.world.Services.Slices(key) {
		for _, p := range slice.Ports {
			if p.Name != port.Name || p.Protocol != port.Protocol {
				continue
			}
			for _, e := range slice.Endpoints {
				do(e, p.Port)
			}
		}
	}
}

// podsBehind are the pods behind a port of a Service at one of its addresses, ready or not.
func (s *Stage) podsBehind(key model.ServiceKey, port model.ServicePort, dial netip.Addr) []compile.DoorPod {
	var out []compile.DoorPod
	ns, seen := s.cluster.Namespaces[key.Namespace], map[model.PodKey]bool{}
	if ns == nil {
		return nil
	}
	s.eachEndpoint(key, port, func(e model.Endpoint, number uint16) {
		if e.Pod.Name == "" || seen[e.Pod] {
			return
		}
		behind := compile.DoorPod{
			Target: match.Target{Namespace: ns.Name, NamespaceLabels: ns.Labels}, Port: model.PodPort{Protocol: port.Protocol, Port: number},
		}
		switch p := s.world.Pods.Pod(e.Pod); {
		case p != nil:
			behind.Labels = p.Labels
			for _, own := range p.Ports {
				if own.Protocol == port.Protocol && own.Port == number {
					behind.Port.Name = own.Name
				}
			}
		case s.cluster.IsNode(e.Address) && e.Address.Is4() == dial.Is4():
			// Of a pod on its node's own network nothing is known but what the Service asks of its pods.
			behind.Labels, behind.Node = s.world.Services.Service(key).Selector, e.Address
		default:
			return
		}
		seen[e.Pod] = true
		out = append(out, behind)
	})
	return out
}

// doorsOf are the doors of a Network.
func (s *Stage) doorsOf(n *model.Network) []compile.Door {
	if n.Type != model.VPC || n.Name == s.cluster.Network {
		return nil
	}
	var out []compile.Door
	for _, d := range s.doors {
		switch {
		case forSix(d) && !n.OnlyIPv6():
		case len(d.Pods) == 0, n.DNS == model.DNSNode:
			out = append(out, d)
		case n.DNS == model.DNSService:
			// Packets are judged where they end up: at an endpoint of the tenant's Service.
			for _, a := range s.world.Services.Answers(model.ServiceKey(n.DNSService), n.Name) {
				if a.Protocol == d.Protocol && a.Endpoint.Addr().Is4() == d.Dial.Addr().Is4() {
					out = append(out, compile.Door{Dial: a.Endpoint, Protocol: a.Protocol, Pods: d.Pods})
				}
			}
		}
	}
	return out
}

func sameDoorPod(a, b compile.DoorPod) bool {
	return a.Namespace == b.Namespace && a.Port == b.Port && a.Node == b.Node && maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(a.NamespaceLabels, b.NamespaceLabels)
}

func sameDoor(a, b compile.Door) bool {
	return a.Dial == b.Dial && a.Protocol == b.Protocol && slices.Equal(a.Servers, b.Servers) &&
		slices.EqualFunc(a.Pods, b.Pods, sameDoorPod)
}
