package dns

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Policy is what a Network's pods may ask beyond the names of their Network.
type Policy struct {
	// Outside: names outside of the cluster are asked of the node's resolvers.
	Outside bool
	// Ranges are the Network's own addresses; their reverse names stay here, as those of all private ranges do.
	Ranges []netip.Prefix
}

// words for people who ask why.
const (
	whyAirGapped = "This Network has no way out (egress: none), so names outside of the cluster do not exist in it."
	whyPrivate   = "Reverse names of private addresses are not asked for outside of the cluster."
)

// local answers what is not the Zone's and is nobody else's business either. It reports false for names that are to be
// asked of the node's resolvers.
//
// Where there is no way out, names outside of the cluster are denied rather than refused: programs take a denial as an
// answer, and a refusal as a fault that may pass. They ask for names that do not exist yet, such as those of their peers,
// and try a list of domains one after the other; a fault would end the list or keep them waiting.
func (p Policy) local(q question, ranges []netip.Prefix) (answer, bool) {
	name := lower(q.name)
	under := func(zone string) bool { return name == zone || strings.HasSuffix(name, "."+zone) }
	switch {
	case under("localhost."): // RFC 6761
		out := answer{zone: "localhost."}
		for _, a := range []string{"127.0.0.1", "::1"} {
			if rr := address(q.name, netip.MustParseAddr(a), q.kind); rr != nil {
				out.answer = []dns.RR{rr}
			}
		}
		return out, true
	case under("invalid."): // RFC 6761
		return answer{rcode: dns.RcodeNameError, zone: "invalid."}, true
	case under("onion."): // RFC 7686
		return answer{rcode: dns.RcodeNameError, zone: "onion."}, true
	case under("resolver.arpa."): // RFC 9462: about this resolver, which has nothing to tell
		return answer{rcode: dns.RcodeNameError, zone: "resolver.arpa."}, true
	case !p.Outside:
		return answer{rcode: dns.RcodeNameError, zone: ".", denied: whyAirGapped}, true
	}
	prefix, zone, _ := reversePrefix(name)
	if zone == "" {
		return answer{}, false
	}
	inside := func(r netip.Prefix) bool {
		return r.Addr().BitLen() == prefix.Addr().BitLen() && r.Bits() <= prefix.Bits() && r.Contains(prefix.Addr())
	}
	if !slices.ContainsFunc(ranges, inside) && !slices.ContainsFunc(p.Ranges, inside) {
		return answer{}, false
	}
	return answer{rcode: dns.RcodeNameError, zone: zone, denied: whyPrivate}, true
}
