package services

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide/drain"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Answer is an endpoint of a tenant's Service that answers a Network's questions for names.
type Answer struct {
	Endpoint netip.AddrPort
	Protocol model.Protocol
}

// Answering is how a Service answers a Network's questions for names.
type Answering struct {
	// Reached: the Network's pods know the Service. Nobody answers otherwise.
	Reached bool
	// Home is the Network of the Service's namespace; empty while that is not known.
	Home string
	// From are the other Networks whose pods may answer, sorted.
	From []string
	// Answers are the endpoints that do.
	Answers []Answer
}

func (a Answering) equal(other Answering) bool {
	return a.Reached == other.Reached && a.Home == other.Home && slices.Equal(a.From, other.From) && slices.Equal(a.Answers, other.Answers)
}

// answering is a Service that is to answer, and how it does.
type answering struct {
	service model.ServiceKey
	Answering
}

// Answers are the endpoints of a Service that answer a Network's questions. The caller does not change them.
func (s *Stage) Answers(service model.ServiceKey, network string) []Answer {
	return s.AnsweringOf(service, network).Answers
}

// AnsweringOf is how a Service answers a Network's questions; the zero value while it is not known to be asked.
func (s *Stage) AnsweringOf(service model.ServiceKey, network string) Answering {
	if a, asks := s.answers[network]; asks && a.service == service {
		return a.Answering
	}
	return Answering{}
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

// answer makes the rows that lead a Network's questions for names to the Service that its owner names, if its pods know that: as
// one of their own Network's, or as one that another offers them. It leads them where the Service's own addresses would. Where
// nobody is to answer they lead nowhere: with infraAccess direct the questions would reach the cluster's own DNS.
func (s *Stage) answer(network string) {
	n, owner := s.world.Networks.Network(network), nb.NamesOwner(network)
	if !n.asks() {
		if _, asked := s.answers[network]; asked {
			s.noteAnswers(network, nil)
			s.world.Balancers.Delete(owner)
		}
		return
	}
	service := s.world.Cluster.DNS
	if n.Model.DNS == model.DNSService {
		service = model.ServiceKey(n.Model.DNSService)
	}
	l := s.look(service)
	n = l.network(network)
	rows := compile.NameService{Layout: n.Layout, Dial: l.nameServers(n)}
	now := answering{service: service}
	var going []netip.AddrPort
	if n.Model.DNS == model.DNSService {
		going = l.byService(n, &rows, &now)
	}
	s.noteAnswers(network, &now)
	rows.Left = s.drainNames(network, rows.UDP, going)
	s.world.Balancers.Set(owner, rows.Rows())
}

// byService has the Service answer a Network's questions if its pods know it. What it returns are endpoints by UDP that still
// serve while they go.
func (l look) byService(n Network, rows *compile.NameService, now *answering) (going []netip.AddrPort) {
	service, ns := l.world.Catalog.Service(l.service), l.namespace(l.service.Namespace)
	if service == nil || ns == nil {
		return nil
	}
	home, endpoints := l.network(l.world.Cluster.HomeOf(*ns)), bounded(service, l.resolve(*ns))
	offered := l.offers(home, *ns) && slices.Contains(home.Consumers, n.Name)
	now.Home, now.Reached = home.Name, offered || l.knows(n, ns, home, endpoints)
	if !now.Reached || !l.served(service) {
		return nil
	}
	now.From = from(n, home, offered, endpoints)
	b := l.backends(*service, n, home.Space, endpoints)
	for _, i := range compile.DNSPorts(*service) {
		protocol := service.Ports[i].Protocol
		if protocol == model.UDP {
			rows.UDP, going = b.Ports[i], b.Left[i]
		} else {
			rows.TCP = b.Ports[i]
		}
		for _, endpoint := range b.Ports[i] {
			now.Answers = append(now.Answers, Answer{endpoint, protocol})
		}
	}
	rows.Affinity = service.Affinity > 0
	return going
}

// from are the other Networks whose pods may answer a Network's questions: the one that offers the Service, and those that its
// endpoints are in.
func from(n, home Network, offered bool, endpoints []resolved) []string {
	var out []string
	if offered {
		out = append(out, home.Name)
	}
	for _, e := range endpoints {
		if e.network != "" && e.network != n.Name && n.uses(e.network) {
			out = append(out, e.network)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// drainNames are the endpoints by UDP that have been left and whose clients nodes are to forget. Those in going still serve.
func (s *Stage) drainNames(network string, lead, going []netip.AddrPort) []netip.AddrPort {
	leads, serving := map[drain.Endpoint]struct{}{}, map[drain.Endpoint]struct{}{}
	for _, list := range []struct {
		endpoints []netip.AddrPort
		into      map[drain.Endpoint]struct{}
	}{{lead, leads}, {going, serving}} {
		for _, e := range list.endpoints {
			list.into[drain.Endpoint{Network: network, Port: compile.DNSPort, Address: e}] = struct{}{}
		}
	}
	var out []netip.AddrPort
	for left := range s.world.Balancers.Leave(nb.NamesOwner(network), leads, serving) {
		out = append(out, left.Address)
	}
	return out
}

// noteAnswers notes who answers a Network's questions; nil: no Service is to.
func (s *Stage) noteAnswers(network string, now *answering) {
	before, had := s.answers[network]
	if delete(s.answers, network); now != nil {
		s.answers[network] = *now
	}
	if had != (now != nil) || had && (before.service != now.service || !before.equal(now.Answering)) {
		s.Answering.Changed(network)
	}
}
