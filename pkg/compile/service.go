package compile

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// Backends are what a Service has in one Network: where each of its ports leads.
type Backends struct {
	Layout Layout
	// Ports: for each port of the Service, by its place there, the endpoints that take new connections.
	Ports [][]netip.AddrPort
	// VIPs are further virtual addresses that the Service has there.
	VIPs []netip.Addr
	// DNS are addresses at which the Network's pods ask for names, when this Service answers.
	DNS []netip.Addr
}

// Service gives the rows of a Service's virtual addresses: in each Network where it is known, one load balancer for
// each protocol. A port without endpoints refuses connections.
//
// OVN keeps all backends of a virtual address in one text: a change of an endpoint rewrites that text, and neither the other
// addresses and ports of its Service nor those of others.
func Service(s model.Service, known []Backends) nb.Facts {
	var facts nb.Facts
	for _, b := range known {
		byProtocol := map[model.Protocol]map[string]string{}
		for i, port := range s.Ports {
			if byProtocol[port.Protocol] == nil {
				byProtocol[port.Protocol] = map[string]string{}
			}
			for _, ip := range slices.Concat(s.ClusterIPs, b.VIPs) {
				vip := netip.AddrPortFrom(ip, port.Port).String()
				byProtocol[port.Protocol][vip] = backendsOf(ip.Is4(), b.Ports[i])
			}
		}
		for _, i := range dnsPorts(s) {
			for _, ip := range b.DNS {
				byProtocol[s.Ports[i].Protocol][netip.AddrPortFrom(ip, dnsPort).String()] = backendsOf(ip.Is4(), b.Ports[i])
			}
		}
		for _, protocol := range []model.Protocol{model.TCP, model.UDP, model.SCTP} {
			if len(byProtocol[protocol]) == 0 {
				continue
			}
			lb := loadBalancer(s, b.Layout, protocol)
			facts.Rows = append(facts.Rows, lb)
			facts.Members = append(facts.Members, balanced(b.Layout, lb, byProtocol[protocol])...)
		}
	}
	return facts
}

// balanced gives a load balancer its virtual addresses, and its place among those of a Network.
func balanced(l Layout, lb *nb.LoadBalancer, backends map[string]string) []nb.Member {
	var out []nb.Member
	vips := nb.Set{In: nb.RefOf(lb), Column: nb.ColumnVips}
	for _, vip := range slices.Sorted(maps.Keys(backends)) {
		out = append(out, nb.Member{Set: vips, Value: nb.Pair(vip, backends[vip])})
	}
	return append(out, nb.Member{
		Set:   nb.Set{In: nb.Ref{Table: nb.TableLoadBalancerGroup, UUID: groupUUID(l)}, Column: nb.ColumnLoadBalancers},
		Value: lb.UUID,
	})
}

// dnsPort is the port of DNS. (RFC 1035.)
const dnsPort = 53

// dnsPorts are the places of the ports of a Service that answer questions for names: for UDP and for TCP the one called
// dns, with or without the protocol behind it, else port 53.
func dnsPorts(s model.Service) []int {
	var out []int
	for _, protocol := range []model.Protocol{model.UDP, model.TCP} {
		found := -1
		for i, p := range s.Ports {
			switch {
			case p.Protocol != protocol:
			case p.Name == "dns", p.Name == "dns-"+string(protocol):
				found = i
			case p.Port == dnsPort && found < 0:
				found = i
			}
		}
		if found >= 0 {
			out = append(out, found)
		}
	}
	return out
}

func loadBalancer(s model.Service, l Layout, protocol model.Protocol) *nb.LoadBalancer {
	text := string(protocol)
	lb := &nb.LoadBalancer{
		UUID:     nb.UUID(nb.TableLoadBalancer, l.UID+"/"+s.UID+"/"+text),
		Name:     l.Name + "/" + s.Key.String() + ":" + text,
		Protocol: &text,
		Options: map[string]string{
			// Without endpoints a client hears so at once. (ovn-nb(5).)
			"reject": "true",
		},
		ExternalIDs: map[string]string{
			nb.KeyOwner:   string(nb.ServiceOwner(s.Key.Namespace, s.Key.Name)),
			nb.KeyUID:     s.UID,
			nb.KeyNetwork: l.Name,
		},
	}
	if s.Affinity > 0 {
		// OVN counts in 16 bits.
		lb.Options["affinity_timeout"] = strconv.Itoa(int(min(s.Affinity, 1<<16-1)))
	}
	return lb
}

// backendsOf is the text of the endpoints of one IP family, in order, each once.
func backendsOf(v4 bool, endpoints []netip.AddrPort) string {
	var texts []string
	for _, a := range endpointsOf(v4, endpoints) {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ",")
}
