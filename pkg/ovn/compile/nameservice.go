package compile

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// NameService is who answers the questions for names of a Network's pods in place of their nodes.
type NameService struct {
	Layout Layout
	// Dial are the addresses at which pods ask.
	Dial []netip.Addr
	// UDP and TCP are the endpoints that answer, by own addresses or by faces. Nobody: questions are refused.
	UDP, TCP []netip.AddrPort
	// Left are endpoints by UDP that take no question any more, and that nodes are to forget when they are not named here.
	Left []netip.AddrPort
	// Affinity: a client stays with an endpoint.
	Affinity bool
}

// Rows are the load balancers of the Network that lead questions to who answers. They are the Network's and not the Service's:
// whatever the Network's owner does, the Service's own rows wait for nothing. They are there while nobody answers, too, so that
// no question goes elsewhere, and the endpoints that come are asked at once.
func (n NameService) Rows() nb.Facts {
	owner := nb.NamesOwner(n.Layout.Name)
	var facts nb.Facts
	for _, way := range []struct {
		protocol   model.Protocol
		lead, left []netip.AddrPort
	}{{model.UDP, n.UDP, n.Left}, {model.TCP, n.TCP, nil}} {
		text := string(way.protocol)
		lb := &nb.LoadBalancer{
			UUID:     nb.UUID(nb.TableLoadBalancer, n.Layout.UID+"/names/"+text),
			Name:     n.Layout.Name + ":names:" + text,
			Protocol: &text, Options: optionsOf(way.protocol),
			ExternalIDs: ids(owner, n.Layout.UID, n.Layout.Name),
		}
		if n.Affinity {
			lb.SelectionFields = []string{clientField}
		}
		lead, left := map[string]string{}, map[string]string{}
		for _, ip := range n.Dial {
			dial := netip.AddrPortFrom(ip, DNSPort).String()
			lead[dial], left[dial] = backendsOf(ip.Is4(), way.lead), backendsOf(ip.Is4(), way.left)
		}
		facts.Rows = append(facts.Rows, lb)
		facts.Members = append(facts.Members, balanced(n.Layout, lb, lead)...)
		if way.protocol == model.UDP {
			facts.Add(drainLoadBalancer(n.Layout, lb, n.Layout.UID+"/names", left))
		}
	}
	return facts
}

// DNSPort is the port of DNS. (RFC 1035.)
const DNSPort = 53

// DNSPorts are the places of the ports of a Service that answer questions for names: for UDP and for TCP the one called
// dns, with or without the protocol behind it, else port 53.
func DNSPorts(s model.Service) []int {
	var out []int
	for _, protocol := range []model.Protocol{model.UDP, model.TCP} {
		found := -1
		for i, p := range s.Ports {
			switch {
			case p.Protocol != protocol:
			case p.Name == "dns", p.Name == "dns-"+string(protocol):
				found = i
			case p.Port == DNSPort && found < 0:
				found = i
			}
		}
		if found >= 0 {
			out = append(out, found)
		}
	}
	return out
}
