package compile

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// GatewayPort is a port that a Gateway listens on.
type GatewayPort struct {
	Protocol model.Protocol
	Port     uint16
	// Parts of its traffic and where each goes; with none it refuses connections.
	Parts []Part
	// Left: endpoints by UDP that get nothing new any more, and that nodes are to forget when they are not named here any more.
	Left []netip.AddrPort
}

// Part is a part of a port's traffic.
type Part struct {
	// Weight relative to that of the other parts.
	Weight int32
	// Endpoints share the part equally. A part without any gets nothing.
	Endpoints []netip.AddrPort
}

// maxBackends bounds how many entries a virtual address has for the sake of weights: Open vSwitch divides traffic by 256
// values of a hash at most. (ofproto-dpif.c, dp_hash.)
const maxBackends = 256

// Gateway gives the rows of a Gateway that has addresses: one load balancer for each protocol, in its Network, and with UDP one
// of what has been left; of l as others know it (Offered), without that.
func Gateway(g model.Gateway, l Layout, addresses []netip.Addr, ports []GatewayPort) nb.Facts {
	var facts nb.Facts
	for _, protocol := range []model.Protocol{model.TCP, model.UDP} {
		vips, gone := map[string]string{}, map[string]string{}
		for _, p := range ports {
			if p.Protocol != protocol {
				continue
			}
			for _, a := range addresses {
				at := netip.AddrPortFrom(a, p.Port).String()
				vips[at], gone[at] = weighted(a.Is4(), p.Parts), backendsOf(a.Is4(), p.Left)
			}
		}
		if len(vips) == 0 {
			continue
		}
		text, key := string(protocol), l.UID+"/gateway/"+g.UID
		lb := &nb.LoadBalancer{
			UUID:        nb.UUID(nb.TableLoadBalancer, key+"/"+text),
			Name:        l.Name + "/" + g.Key.String() + ":gateway:" + text,
			Protocol:    &text,
			Options:     optionsOf(protocol),
			ExternalIDs: ids(nb.GatewayOwner(g.Key.Namespace, g.Key.Name), g.UID, l.itself()),
		}
		facts.Rows = append(facts.Rows, lb)
		facts.Members = append(facts.Members, balanced(l, lb, vips)...)
		if protocol == model.UDP && !l.offered {
			facts.Add(drainLoadBalancer(l, lb, key, gone))
		}
	}
	return facts
}

// weighted is the text of the endpoints of one IP family, each as often as its share of the traffic asks for: OVN gives
// each entry of a virtual address the same. Shares are exact as long as that takes no more than maxBackends entries;
// beyond that they are rounded, and no endpoint with a weight is left out.
func weighted(v4 bool, parts []Part) string {
	var share []shareOf
	for _, p := range parts {
		own := endpointsOf(v4, p.Endpoints)
		for _, a := range own {
			if p.Weight > 0 {
				share = append(share, shareOf{a, int64(p.Weight), int64(len(own))})
			}
		}
	}
	var texts []string
	for at, times := range counts(share) {
		for range times {
			texts = append(texts, share[at].endpoint.String())
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

// shareOf is an endpoint that gets weight/among of the traffic, relative to the others.
type shareOf struct {
	endpoint      netip.AddrPort
	weight, among int64
}

// counts are how often each endpoint is entered.
func counts(of []shareOf) []int64 {
	out := make([]int64, len(of))
	// The shares as whole numbers: over the common multiple of their denominators, as far as that stays small.
	common := int64(1)
	for _, s := range of {
		if common = common / gcd(common, s.among) * s.among; common > 1<<20 {
			common = 1 << 20
			break
		}
	}
	var divisor, total int64
	for i, s := range of {
		out[i] = max(s.weight*common/s.among, 1)
		divisor = gcd(divisor, out[i])
		total += out[i]
	}
	for i := range out {
		if total/divisor <= maxBackends {
			out[i] /= divisor
		} else {
			out[i] = max((out[i]*maxBackends+total/2)/total, 1)
		}
	}
	return out
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// endpointsOf are the endpoints of one IP family, in order, each once.
func endpointsOf(v4 bool, endpoints []netip.AddrPort) []netip.AddrPort {
	own := slices.DeleteFunc(slices.Clone(endpoints), func(a netip.AddrPort) bool { return a.Addr().Is4() != v4 })
	slices.SortFunc(own, netip.AddrPort.Compare)
	return slices.Compact(own)
}
