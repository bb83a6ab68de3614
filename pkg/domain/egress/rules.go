package egress

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Rules are what of a Network, and of its cluster, decides what its pods reach past it. A nil or empty list opens nothing.
type Rules struct {
	// Egress and Infra are the Network's choices.
	Egress model.Egress
	Infra  model.InfraAccess
	// Consumer: its pods reach those of some other Network by their faces. Whose faces these are, OVN judges before, and the node after.
	Consumer bool
	// Flat: its pods have no porthole. The node judges them, and lets them to the API servers' own addresses, too.
	Flat bool
	// DNS are the addresses where the porthole itself takes questions for names; none where nobody answers.
	DNS []netip.Addr
	// API are the Kubernetes API's addresses that become one of Servers', and Relayed those where the porthole takes connections to it.
	API, Relayed, Servers []netip.AddrPort
	// ServiceRanges are where the Network's Services have addresses. What comes to the porthole is for one that no Service has.
	ServiceRanges []netip.Prefix
	// Addressed are the ranges of providers whose addresses the Network's pods dial. What comes to the porthole is for one that nobody
	// there has.
	Addressed []netip.Prefix
	// Faces are the ranges of all faces of the cluster, Infrastructure is what needs direct access, and Closed what is open to no Network.
	Faces, Infrastructure, Closed []netip.Prefix
}

// Set is what a Step compares a packet's destination with.
type Set string

// The sets.
const (
	// SetServers are API servers: addresses with TCP ports. The others are ranges.
	SetServers   Set = "servers"
	SetNever     Set = "never"
	SetFaces     Set = "faces"
	SetInfra     Set = "infra"
	SetAddressed Set = "addressed"
	// SetRest is everything.
	SetRest Set = ""
)

// Step is one rule of the chain: a packet to what is in Set passes, or is refused. Packets that it is not about go on to the next.
type Step struct {
	Set  Set
	Pass bool
	// Translated: it is about those alone whose destination was put in place of the API's.
	Translated bool
}

// Steps are the rules about what a connection's sender sends, in their order. The last one is about everything.
func (r Rules) Steps() []Step {
	direct := r.Infra == model.InfraDirect
	// The servers' own addresses can be outside of the cluster, where the way out would lead.
	steps := []Step{
		{Set: SetServers, Pass: r.Infra != model.InfraNone, Translated: r.Infra == model.InfraServices && !r.Flat},
		{Set: SetNever},
	}
	if r.Consumer {
		steps = append(steps, Step{Set: SetFaces, Pass: true})
	}
	return append(steps,
		Step{Set: SetInfra, Pass: direct},
		// After the infrastructure's: a node may get an address in a provider's subnet.
		Step{Set: SetAddressed},
		Step{Set: SetRest, Pass: r.Egress == model.EgressNode})
}

// ranges are addresses that are judged alike, and why.
type ranges struct {
	why Why
	all []netip.Prefix
	// behind: these are of IPv4, and it is what stands for them behind a translator.
	behind bool
}

// Ranges are the contents of a set of ranges.
func (r Rules) Ranges(s Set) (out []netip.Prefix) {
	for _, part := range r.parts(s) {
		if part.behind {
			part.all = Behind(part.all)
		}
		out = append(out, part.all...)
	}
	return out
}

// parts are the contents of a set, each part with the reason for it.
func (r Rules) parts(s Set) (out []ranges) {
	faces := ranges{why: Face, all: r.Faces}
	switch s {
	case SetNever:
		out = []ranges{
			{why: OwnServices, all: r.ServiceRanges},
			{why: Special, all: slices.Concat(model.Never4(), model.Never6())},
			{why: Closed, all: r.Closed},
		}
		closed := append(slices.Clone(out), faces, ranges{why: Infrastructure, all: r.Infrastructure})
		if !r.Consumer {
			out = append(out, faces)
		}
		// A translator would be a way around.
		for _, part := range closed {
			part.behind = true
			out = append(out, part)
		}
	case SetFaces:
		out = []ranges{faces}
	case SetInfra:
		out = []ranges{{why: Infrastructure, all: r.Infrastructure}}
	case SetAddressed:
		out = []ranges{{why: Addressed, all: r.Addressed}, {why: Addressed, all: r.Addressed, behind: true}}
	case SetServers, SetRest:
	}
	return out
}

// translator is the well-known prefix of translators between IPv6 and IPv4. (RFC 6052.)
var translator = netip.MustParsePrefix("64:ff9b::/96")

// Behind are IPv4 prefixes as they look behind a translator. Others are left out.
func Behind(in []netip.Prefix) (out []netip.Prefix) {
	prefix := translator.Addr().As16()
	for _, p := range in {
		if p.Addr().Is4() {
			a := p.Addr().As4()
			copy(prefix[12:], a[:])
			out = append(out, netip.PrefixFrom(netip.AddrFrom16(prefix), translator.Bits()+p.Bits()))
		}
	}
	return out
}

// natural is what an address behind a translator stands for; not valid for others.
func natural(a netip.Addr) netip.Addr {
	if !translator.Contains(a) {
		return netip.Addr{}
	}
	all := a.As16()
	return netip.AddrFrom4([4]byte(all[12:]))
}
