package services

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
)

// Answer is an endpoint of a tenant's Service that answers a Network's questions for names.
type Answer struct {
	Endpoint netip.AddrPort
	Protocol model.Protocol
}

// Answers are those of a Service in a Network. The caller does not change them.
func (s *Stage) Answers(service model.ServiceKey, network string) []Answer {
	return s.answers[service][network]
}

// Answered reports whether a Service has endpoints that answer a Network's questions.
func (s *Stage) Answered(service model.ServiceKey, network string) bool {
	return len(s.Answers(service, network)) > 0
}

// NameServers are the addresses at which the pods of a Network ask for names.
func (s *Stage) NameServers(n *model.Network) []netip.Addr {
	dns := s.world.Catalog.Service(s.world.Cluster.DNS)
	switch {
	case dns == nil:
		return nil
	case n.OnlyIPv6() && !model.HasIPv6(dns.ClusterIPs):
		return append(slices.Clone(dns.ClusterIPs), model.NamesAddress6())
	}
	return dns.ClusterIPs
}

// noteAnswers notes, of a Service that may answer questions for names, where these lead in each Network.
func (s *Stage) noteAnswers(key model.ServiceKey, known []compile.Backends) {
	now := map[string][]Answer{}
	for _, b := range known {
		if len(b.DNS) == 0 {
			continue
		}
		service := s.world.Catalog.Service(key)
		for _, i := range compile.DNSPorts(*service) {
			for _, endpoint := range b.Ports[i] {
				now[b.Layout.Name] = append(now[b.Layout.Name], Answer{endpoint, service.Ports[i].Protocol})
			}
		}
	}
	before := s.answers[key]
	if s.answers[key] = now; len(now) == 0 {
		delete(s.answers, key)
	}
	for _, answers := range []map[string][]Answer{before, now} {
		for network := range answers {
			if !slices.Equal(before[network], now[network]) {
				s.Answering.Changed(network)
			}
		}
	}
}
