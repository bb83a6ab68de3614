package trace

import (
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Balance finds where connections that a port begins are led to: the endpoints of the virtual address that they dial. known
// is false when that is no virtual address; one without endpoints refuses connections.
func (db *Database) Balance(
	port *nb.LogicalSwitchPort, dialled netip.AddrPort, protocol model.Protocol,
) (endpoints []netip.AddrPort, known bool) {
	_, endpoints, known = db.Balancer(port, dialled, protocol)
	return endpoints, known
}

// Balancer is as Balance, and names the load balancer that leads there; nil when none does.
func (db *Database) Balancer(
	port *nb.LogicalSwitchPort, dialled netip.AddrPort, protocol model.Protocol,
) (lb *nb.LoadBalancer, endpoints []netip.AddrPort, known bool) {
	for lb := range db.balancersAt(port) {
		// Without a protocol it is for TCP. (ovn-nb(5), Load_Balancer.)
		if protocolOf(lb) != protocol {
			continue
		}
		if text, has := lb.Vips[dialled.String()]; has {
			return lb, endpointsOf(text), true
		}
		if lb.Options[nb.OptionTemplate] == "true" {
			if text, has := near(lb, dialled, db.variables[db.chassisOf(port.Name)]); has {
				return lb, endpointsOf(text), true
			}
		}
	}
	return nil, nil, false
}

// near is where a load balancer with variables leads from a node. What names a variable that the node has not is nothing there.
func near(lb *nb.LoadBalancer, dialled netip.AddrPort, variables map[string]string) (backends string, has bool) {
	value := func(text string) string {
		if name, is := strings.CutPrefix(text, nb.TemplateMark); is {
			return variables[name]
		}
		return text
	}
	for vip, text := range lb.Vips {
		address, number, _ := strings.Cut(vip, ":")
		a, err := netip.ParseAddr(value(address))
		if p, wrong := strconv.ParseUint(value(number), 10, 16); err == nil && wrong == nil && netip.AddrPortFrom(a, uint16(p)) == dialled {
			return text, true
		}
	}
	return "", false
}

// Instead is the address that a port's switch makes of one that it sends to, whatever the protocol: of a face in its Network the
// pod's own, of an own address in a Network that it uses the face. Not valid where it makes none. A virtual address with a port
// goes before it. (ovn-northd(8), Ingress Table: LB.)
func (db *Database) Instead(port *nb.LogicalSwitchPort, dialled netip.Addr) netip.Addr {
	for lb := range db.balancersAt(port) {
		if to, err := netip.ParseAddr(lb.Vips[dialled.String()]); err == nil {
			return to
		}
	}
	return netip.Addr{}
}

// balancersAt are the load balancers of a port's switch.
func (db *Database) balancersAt(port *nb.LogicalSwitchPort) iter.Seq[*nb.LoadBalancer] {
	return func(yield func(*nb.LoadBalancer) bool) {
		sw := db.switches[port.UUID]
		if sw == nil {
			return
		}
		for _, group := range sw.LoadBalancerGroups {
			g := db.shared[group]
			if g == nil {
				continue
			}
			for _, id := range g.LoadBalancers {
				if lb := db.balancers[id]; lb != nil && !yield(lb) {
					return
				}
			}
		}
	}
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
