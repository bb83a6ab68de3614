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
		if pods := s.podsBehind(s.defaults.DNS, port); dial.Port() == dnsPort && len(pods) > 0 {
			out = append(out, compile.Door{Dial: dial, Protocol: port.Protocol, Pods: pods})
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
			out = append(out, compile.Door{Dial: dial, Protocol: port.Protocol, Servers: servers})
		}
	})
	return out
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

// podsBehind are the pods behind a port of a Service, ready or not.
func (s *State) podsBehind(key model.ServiceKey, port model.ServicePort) []compile.DoorPod {
	var out []compile.DoorPod
	seen := map[model.PodKey]bool{}
	s.eachEndpoint(key, port, func(e model.Endpoint, number uint16) {
		p, ns := s.pods[e.Pod], s.namespaces[e.Pod.Namespace]
		if p == nil || ns == nil || seen[e.Pod] {
			return
		}
		seen[e.Pod] = true
		behind := compile.DoorPod{
			Target: match.Target{Namespace: ns.Name, NamespaceLabels: ns.Labels, Labels: p.Labels},
			Port:   model.PodPort{Protocol: port.Protocol, Port: number},
		}
		for _, own := range p.Ports {
			if own.Protocol == port.Protocol && own.Port == number {
				behind.Port.Name = own.Name
			}
		}
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
		if len(d.Pods) == 0 || n.model.DNS == model.DNSNode {
			out = append(out, d)
		}
	}
	return out
}

func sameDoorPod(a, b compile.DoorPod) bool {
	return a.Namespace == b.Namespace && a.Port == b.Port && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.NamespaceLabels, b.NamespaceLabels)
}

func sameDoor(a, b compile.Door) bool {
	return a.Dial == b.Dial && a.Protocol == b.Protocol && slices.Equal(a.Servers, b.Servers) &&
		slices.EqualFunc(a.Pods, b.Pods, sameDoorPod)
}
