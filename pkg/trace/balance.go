package trace

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// Balance finds where connections that a port begins are led to: the endpoints of the virtual address that they dial. known
// is false when that is no virtual address; one without endpoints refuses connections.
func (db *Database) Balance(port *nb.LogicalSwitchPort, dialled netip.AddrPort, protocol model.Protocol) (endpoints []netip.AddrPort, known bool) {
	sw := db.switches[port.UUID]
	if sw == nil {
		return nil, false
	}
	for _, group := range sw.LoadBalancerGroups {
		g := db.shared[group]
		if g == nil {
			continue
		}
		for _, id := range g.LoadBalancers {
			lb := db.balancers[id]
			// Without a protocol it is for TCP. (ovn-nb(5), Load_Balancer.)
			if lb == nil || protocolOf(lb) != protocol {
				continue
			}
			if text, has := lb.Vips[dialled.String()]; has {
				return endpointsOf(text), true
			}
		}
	}
	return nil, false
}

func protocolOf(lb *nb.LoadBalancer) model.Protocol {
	if lb.Protocol == nil || *lb.Protocol == "" {
		return model.TCP
	}
	return model.Protocol(*lb.Protocol)
}

func endpointsOf(text string) []netip.AddrPort {
	var out []netip.AddrPort
	for part := range strings.SplitSeq(text, ",") {
		if a, err := netip.ParseAddrPort(strings.TrimSpace(part)); err == nil {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}
