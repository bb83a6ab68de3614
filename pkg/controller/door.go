package controller

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/match"
	"github.com/atoll-net/atoll/pkg/model"
)

// dnsPort is the port of DNS. (RFC 1035.)
const dnsPort = 53

// clusterDoors are the doors that every Network of type vpc may have: to the cluster's DNS and to the Kubernetes API.
func (s *State) clusterDoors() []compile.Door {
	var out []compile.Door
	s.eachPort(s.defaults.DNS, func(dial netip.AddrPort, port model.ServicePort) {
		if pods := s.podsBehind(s.defaults.DNS, port, dial.Addr()); dial.Port() == dnsPort && len(pods) > 0 {
			door := compile.Door{Dial: dial, Protocol: port.Protocol, Pods: pods}
			out = append(out, s.doubled(s.defaults.DNS, door, model.NamesAddress6())...)
		}
	})
	s.eachPort(apiService(), func(dial netip.AddrPort, port model.ServicePort) {
		var servers []netip.AddrPort
		s.eachEndpoint(apiService(), port, func(e model.Endpoint, number uint16) {
			if e.Address.Is4() == dial.Addr().Is4() {
				servers = append(servers, netip.AddrPortFrom(e.Address, number))
			}
		})
		if len(servers) > 0 {
			slices.SortFunc(servers, netip.AddrPort.Compare)
			door := compile.Door{Dial: dial, Protocol: port.Protocol, Servers: servers}
			out = append(out, s.doubled(apiService(), door, model.APIAddress6())...)
		}
	})
	return out
}

// doubled are a door, and the same one at the address of IPv6 by which Networks of IPv6 alone know it, if the Service has none.
func (s *State) doubled(key model.ServiceKey, d compile.Door, six netip.Addr) []compile.Door {
	if model.HasIPv6(s.services.byKey[key].ClusterIPs) {
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
func (s *State) eachPort(key model.ServiceKey, do func(netip.AddrPort, model.ServicePort)) {
	service := s.services.byKey[key]
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
func (s *State) eachEndpoint(key model.ServiceKey, port model.ServicePort, do func(model.Endpoint, uint16)) {
	byName := func(a, b model.SliceKey) int { return strings.Compare(a.Name, b.Name) }
	for _, of := range slices.SortedFunc(maps.Keys(s.services.of[key]), byName) {
		slice := s.services.slices[of]
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
func (s *State) podsBehind(key model.ServiceKey, port model.ServicePort, dial netip.Addr) []compile.DoorPod {
	var out []compile.DoorPod
	ns, seen := s.namespaces[key.Namespace], map[model.PodKey]bool{}
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
		switch p := s.pods[e.Pod]; {
		case p != nil:
			behind.Labels = p.Labels
			for _, own := range p.Ports {
				if own.Protocol == port.Protocol && own.Port == number {
					behind.Port.Name = own.Name
				}
			}
		case s.isNode(e.Address) && e.Address.Is4() == dial.Is4():
			// Of a pod on its node's own network nothing is known but what the Service asks of its pods.
			behind.Labels, behind.Node = s.services.byKey[key].Selector, e.Address
		default:
			return
		}
		seen[e.Pod] = true
		out = append(out, behind)
	})
	return out
}

// doorsOf are the doors of a Network.
func (s *State) doorsOf(n *network) []compile.Door {
	if n.model.Type != model.VPC || n.name == s.defaults.Network {
		return nil
	}
	var out []compile.Door
	for _, d := range s.policies.doors {
		switch {
		case forSix(d) && !n.model.OnlyIPv6():
		case len(d.Pods) == 0, n.model.DNS == model.DNSNode:
			out = append(out, d)
		case n.model.DNS == model.DNSService:
			// Packets are judged where they end up: at an endpoint of the tenant's Service.
			for _, a := range s.policies.answers[model.ServiceKey(n.model.DNSService)][n.name] {
				if a.protocol == d.Protocol && a.at.Addr().Is4() == d.Dial.Addr().Is4() {
					out = append(out, compile.Door{Dial: a.at, Protocol: a.protocol, Pods: d.Pods})
				}
			}
		}
	}
	return out
}

// answer is an endpoint of a tenant's Service that answers a Network's questions for names.
type answer struct {
	at       netip.AddrPort
	protocol model.Protocol
}

// noteAnswers notes, of a Service that may answer questions for names, where these lead in each Network; policies there are
// compiled anew when that has changed.
func (s *State) noteAnswers(key model.ServiceKey, known []compile.Backends) {
	now := map[string][]answer{}
	for _, b := range known {
		if len(b.DNS) == 0 {
			continue
		}
		service := s.services.byKey[key]
		for _, i := range compile.DNSPorts(*service) {
			for _, at := range b.Ports[i] {
				now[b.Layout.Name] = append(now[b.Layout.Name], answer{at, service.Ports[i].Protocol})
			}
		}
	}
	before := s.policies.answers[key]
	for _, of := range []map[string][]answer{before, now} {
		for network := range of {
			if !slices.Equal(before[network], now[network]) {
				s.policies.rearrange(network)
				s.touched[network] = struct{}{}
			}
		}
	}
	if s.policies.answers[key] = now; len(now) == 0 {
		delete(s.policies.answers, key)
	}
}

func sameDoorPod(a, b compile.DoorPod) bool {
	return a.Namespace == b.Namespace && a.Port == b.Port && a.Node == b.Node && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.NamespaceLabels, b.NamespaceLabels)
}

func sameDoor(a, b compile.Door) bool {
	return a.Dial == b.Dial && a.Protocol == b.Protocol && slices.Equal(a.Servers, b.Servers) &&
		slices.EqualFunc(a.Pods, b.Pods, sameDoorPod)
}
