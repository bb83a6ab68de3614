package trace

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// ICMP is the protocol of packets that are ICMP, or ICMPv6 in IPv6.
const ICMP model.Protocol = "icmp"

// Packet is the first packet of a connection.
type Packet struct {
	From, To netip.Addr
	Protocol model.Protocol
	// Port is the one that it goes to; 0 for ICMP. Which one it comes from nobody knows before it is sent.
	Port uint16
	// Loopback: a load balancer has led it back to who sent it, and it goes out where it came in.
	Loopback bool

	// inport and outport are the ports of the switch where it is judged; outport is empty before the switch has looked it up.
	outport, out string
	// chassis is where it is judged.
	chassis string
	// translated: a load balancer has put an endpoint in place of its destination.
	translated bool
}

// field is something of a packet that a match can name.
type field struct {
	// needs is what a packet must be to have the field; nil for none.
	needs func(Packet) bool
	// is it: of a field that is no more than yes or no.
	is func(Packet) bool
	// compare it with values.
	compare func(p Packet, relation string, values []value) (bool, error)
}

func is4(p Packet) bool { return p.To.Is4() }
func is6(p Packet) bool { return p.To.Is6() }

func isProtocol(protocol model.Protocol) func(Packet) bool {
	return func(p Packet) bool { return p.Protocol == protocol }
}

func isICMP(family func(Packet) bool) func(Packet) bool {
	return func(p Packet) bool { return p.Protocol == ICMP && family(p) }
}

func always(Packet) bool { return true }
func never(Packet) bool  { return false }

// fields are those that are understood.
var fields = map[string]field{
	"ip":      {is: always},
	"ip4":     {is: is4},
	"ip6":     {is: is6},
	"tcp":     {is: isProtocol(model.TCP)},
	"udp":     {is: isProtocol(model.UDP)},
	"sctp":    {is: isProtocol(model.SCTP)},
	"icmp":    {is: isProtocol(ICMP)},
	"icmp4":   {needs: is4, is: isProtocol(ICMP)},
	"icmp6":   {needs: is6, is: isProtocol(ICMP)},
	"ip4.src": {needs: is4, compare: compareAddress(func(p Packet) netip.Addr { return p.From })},
	"ip4.dst": {needs: is4, compare: compareAddress(func(p Packet) netip.Addr { return p.To })},
	"ip6.src": {needs: is6, compare: compareAddress(func(p Packet) netip.Addr { return p.From })},
	"ip6.dst": {needs: is6, compare: compareAddress(func(p Packet) netip.Addr { return p.To })},
	"tcp.dst": portField(model.TCP), "udp.dst": portField(model.UDP), "sctp.dst": portField(model.SCTP),
	// The first packet of a connection has SYN alone. (RFC 9293.)
	"tcp.flags": {needs: isProtocol(model.TCP), compare: compareNumber(func(Packet) uint64 { return 2 })},
	// The only ICMP that is traced is a question for an echo. (RFC 792, RFC 4443.)
	"icmp4.type":      {needs: isICMP(is4), compare: compareNumber(func(Packet) uint64 { return 8 })},
	"icmp6.type":      {needs: isICMP(is6), compare: compareNumber(func(Packet) uint64 { return 128 })},
	"ip.is_frag":      {is: never},
	"ct.new":          {is: always},
	"ct.est":          {is: never},
	"ct_mark.blocked": {compare: compareNumber(func(Packet) uint64 { return 0 })},
	"ct.dnat":         {is: func(p Packet) bool { return p.translated }},
	"flags.loopback":  {is: func(p Packet) bool { return p.Loopback }},
	"inport":          {compare: compareSwitchPort(func(p Packet) string { return p.outport })},
	"outport":         {compare: compareSwitchPort(func(p Packet) string { return p.out })},
}

func portField(protocol model.Protocol) field {
	return field{needs: isProtocol(protocol), compare: compareNumber(func(p Packet) uint64 { return uint64(p.Port) })}
}

// value is one that a field is compared with: the name of a switch port, addresses, or a number of which some bits count.
type value struct {
	port      string
	addresses netip.Prefix
	number    uint64
	mask      uint64
}

// constant reads a number or an address, with a mask or a prefix's length if there is one.
func constant(text, mask string) (value, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		bits := a.BitLen()
		if mask != "" {
			if bits, err = strconv.Atoi(mask); err != nil || bits < 0 || bits > a.BitLen() {
				return value{}, fmt.Errorf("the mask of %s/%s is not understood", text, mask)
			}
		}
		return value{addresses: netip.PrefixFrom(a, bits).Masked()}, nil
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return value{}, fmt.Errorf("%q is no number or address", text)
	}
	v := value{number: n, mask: ^uint64(0)}
	if mask != "" {
		if v.mask, err = strconv.ParseUint(mask, 0, 64); err != nil {
			return value{}, fmt.Errorf("the mask of %s/%s is not understood", text, mask)
		}
	}
	return v, nil
}

// oneOf is what == means with several values: any of them; != means none.
func oneOf(relation string, values []value, same func(value) bool) (bool, error) {
	if relation != "==" && relation != "!=" {
		return false, fmt.Errorf("%s is not understood here", relation)
	}
	return slices.ContainsFunc(values, same) == (relation == "=="), nil
}

func compareSwitchPort(of func(Packet) string) func(Packet, string, []value) (bool, error) {
	return func(p Packet, relation string, values []value) (bool, error) {
		return oneOf(relation, values, func(v value) bool { return v.port == of(p) })
	}
}

func compareAddress(of func(Packet) netip.Addr) func(Packet, string, []value) (bool, error) {
	return func(p Packet, relation string, values []value) (bool, error) {
		if slices.ContainsFunc(values, func(v value) bool { return !v.addresses.IsValid() }) {
			return false, errors.New("an address is compared with what is none")
		}
		return oneOf(relation, values, func(v value) bool { return v.addresses.Contains(of(p)) })
	}
}

func compareNumber(of func(Packet) uint64) func(Packet, string, []value) (bool, error) {
	return func(p Packet, relation string, values []value) (bool, error) {
		have := of(p)
		if relation == "==" || relation == "!=" {
			return oneOf(relation, values, func(v value) bool { return have&v.mask == v.number&v.mask })
		}
		if len(values) != 1 || values[0].mask != ^uint64(0) {
			return false, fmt.Errorf("%s with something else than one number", relation)
		}
		n := values[0].number
		return map[string]bool{"<": have < n, "<=": have <= n, ">": have > n, ">=": have >= n}[relation], nil
	}
}
