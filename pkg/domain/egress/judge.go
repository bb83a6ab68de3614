package egress

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Packet is the first one of a connection, as a pod sends it. Port is 0 for protocols without ports.
type Packet struct {
	To       netip.Addr
	Port     uint16
	Protocol model.Protocol
}

// Why is what a packet's destination is, on which the verdict rests.
type Why string

// What a packet may be for.
const (
	// Names is the cluster's DNS, at the node.
	Names Why = "names"
	// API is the Kubernetes API by its address in the cluster, and Server one of its servers by its own.
	API    Why = "api"
	Server Why = "server"
	// Face is of a pod, or of none.
	Face Why = "face"
	// OwnServices is a service range of the Network, and Addressed a range of a provider: no Service and no pod has the address.
	OwnServices Why = "own services"
	Addressed   Why = "addressed"
	// Special is a range that no pod reaches, wherever it is, and Closed one that the cluster's owner has closed.
	Special Why = "special"
	Closed  Why = "closed"
	// Infrastructure is what counts as it, and Outside all else.
	Infrastructure Why = "infrastructure"
	Outside        Why = "outside"
)

// Verdict is what becomes of a packet.
type Verdict struct {
	Pass bool
	Why  Why
	// Address is the one that Why is about: the packet's, or the one of IPv4 that it stands for behind a translator.
	Address netip.Addr
}

// dnsPort is where names are asked for. (RFC 1035.)
const dnsPort = 53

// Judge says whether a packet passes, and which rule says so.
func (r Rules) Judge(p Packet) Verdict {
	at, tcp := netip.AddrPortFrom(p.To, p.Port), p.Protocol == model.TCP
	out := Verdict{Why: Outside, Address: p.To}
	switch {
	case slices.Contains(r.DNS, p.To):
		out.Why, out.Pass = Names, p.Port == dnsPort && (tcp || p.Protocol == model.UDP)
		return out
	case tcp && slices.Contains(r.Relayed, at):
		out.Why, out.Pass = API, true
		return out
	}
	api, server := tcp && slices.Contains(r.API, at), tcp && slices.Contains(r.Servers, at)
	to, translated := at, false
	if api && r.Infra != model.InfraNone {
		to, translated = r.inPlaceOf(at)
	}
	for _, step := range r.Steps() {
		if why, of, meets := r.meets(step, to, tcp, translated); meets {
			out.Pass, out.Why, out.Address = step.Pass, why, of
			break
		}
	}
	// Whatever rule decides, that is what it is.
	switch {
	case api:
		out.Why = API
	case server:
		out.Why = Server
	}
	return out
}

// inPlaceOf is the first API server of an address' IP family, which is put in its place; the address itself where there is none.
func (r Rules) inPlaceOf(at netip.AddrPort) (netip.AddrPort, bool) {
	for _, s := range r.Servers {
		if s.Addr().Is4() == at.Addr().Is4() {
			return s, true
		}
	}
	return at, false
}

// meets reports whether a step is about a packet to an address and port, and what the address is there.
func (r Rules) meets(s Step, to netip.AddrPort, tcp, translated bool) (why Why, of netip.Addr, is bool) {
	switch s.Set {
	case SetRest:
		return Outside, to.Addr(), true
	case SetServers:
		return Server, to.Addr(), tcp && (translated || !s.Translated) && slices.Contains(r.Servers, to)
	}
	for _, part := range r.parts(s.Set) {
		a := to.Addr()
		if part.behind {
			a = natural(a)
		}
		if a.IsValid() && slices.ContainsFunc(part.all, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return part.why, a, true
		}
	}
	return "", to.Addr(), false
}
