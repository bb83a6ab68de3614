package porthole

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Flat is a Network whose pods have addresses that the nodes know, and leave by the node's own links.
type Flat struct {
	Subnets []netip.Prefix
	// Egress and Infra are the Network's choices.
	Egress model.Egress
	Infra  model.InfraAccess
}

func normalFlat(in []Flat) []Flat {
	var out []Flat
	for _, f := range in {
		f.Subnets = model.Outermost(f.Subnets)
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Flat) int {
		return cmp.Or(slices.CompareFunc(a.Subnets, b.Subnets, netip.Prefix.Compare), cmp.Compare(a.Egress, b.Egress),
			cmp.Compare(a.Infra, b.Infra))
	})
	return out
}

func (f Flat) equal(o Flat) bool {
	return slices.Equal(f.Subnets, o.Subnets) && f.Egress == o.Egress && f.Infra == o.Infra
}

// subnetsWhere are those of the flat Networks that something is true of.
func subnetsWhere(all []Flat, is func(Flat) bool) (out []netip.Prefix) {
	for _, f := range all {
		if is(f) {
			out = append(out, f.Subnets...)
		}
	}
	return out
}

// Walls are what is between pods and OVN itself: whoever could write to its databases, or speak to a node as another node does, would be in
// every Network. They are judged on the node, after kube-proxy has put a Service's endpoint in place of its address.
type Walls struct {
	// TunnelPorts are the UDP ports on which nodes take each other's tunnels.
	TunnelPorts []uint16
	// Databases are OVN's on machines that a Network with direct access may reach otherwise.
	Databases []netip.AddrPort
	// Instead are the addresses that pods' packets get in place of a tunnel's.
	Instead []Instead
	// Balancers are the ranges of load balancers whose addresses kube-proxy may serve to pods of flat Networks.
	Balancers []netip.Prefix
}

// Instead is the address that a packet gets which leaves by an interface with a tunnel's address.
type Instead struct {
	Link    string
	Address netip.Addr
}

func (w Walls) normal() Walls {
	w.TunnelPorts = unique(w.TunnelPorts, cmp.Compare[uint16])
	w.Databases = unique(w.Databases, netip.AddrPort.Compare)
	w.Instead = unique(w.Instead, func(a, b Instead) int { return cmp.Or(cmp.Compare(a.Link, b.Link), a.Address.Compare(b.Address)) })
	w.Balancers = model.Outermost(w.Balancers)
	return w
}

func (w Walls) equal(o Walls) bool {
	return slices.Equal(w.TunnelPorts, o.TunnelPorts) && slices.Equal(w.Databases, o.Databases) && slices.Equal(w.Instead, o.Instead) &&
		slices.Equal(w.Balancers, o.Balancers)
}
