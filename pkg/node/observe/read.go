package observe

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/ping"
)

// Types of ICMP and ICMPv6 (IANA): those of echoes, and those of errors, which quote what they are about.
const (
	echo4, reply4 = 8, 0
	echo6, reply6 = 128, 129
)

func isError(proto byte, kind byte) bool {
	if proto == protoICMPv6 {
		return kind >= 1 && kind <= 4
	}
	return kind == 3 || kind == 11 || kind == 12
}

// Flags of TCP (RFC 9293, section 3.1).
const (
	flagSYN, flagRST, flagACK = 0x02, 0x04, 0x10
	flagsAt                   = 13
	sizeTCP                   = 20
)

// ip is a packet of IP, as far as it is looked at.
type ip struct {
	from, to netip.Addr
	proto    byte
	upper    []byte
}

// parseIP reads a header of IP. Extensions of IPv6 are none of ours: what is sent has none.
func parseIP(data []byte) (out ip, ok bool) {
	switch {
	case len(data) >= 20 && data[0]>>4 == 4:
		header := int(data[0]&0xf) * 4
		if header < 20 || len(data) < header || binary.BigEndian.Uint16(data[6:])&0x1fff != 0 {
			return out, false
		}
		return ip{netip.AddrFrom4([4]byte(data[12:16])), netip.AddrFrom4([4]byte(data[16:20])), data[9], data[header:]}, true
	case len(data) >= size6 && data[0]>>4 == 6:
		return ip{netip.AddrFrom16([16]byte(data[8:24])), netip.AddrFrom16([16]byte(data[24:40])), data[6], data[size6:]}, true
	}
	return out, false
}

// inside is the packet of IP that a tunnel's packet carries.
func (p ip) inside() (out ip, ok bool) {
	if p.proto != protoUDP || len(p.upper) < sizeUDP+sizeGeneve || binary.BigEndian.Uint16(p.upper[2:]) != geneve {
		return out, false
	}
	header := p.upper[sizeUDP:]
	frame := sizeGeneve + int(header[0]&0x3f)*4
	if binary.BigEndian.Uint16(header[2:]) != ethernet || len(header) < frame+etherSize {
		return out, false
	}
	if kind := binary.BigEndian.Uint16(header[frame+etherTypes:]); kind != type4 && kind != type6 {
		return out, false
	}
	return parseIP(header[frame+etherSize:])
}

// read knows a packet: a marked one, an answer with its mark, or, unsure, a datagram that is an answer if it is to whom has sent one.
func (w Watch) read(data []byte) (out Packet, unsure, ok bool) {
	outer, whole := parseIP(data)
	if !whole {
		return out, false, false
	}
	if inner, tunnelled := outer.inside(); tunnelled {
		out, unsure, ok = w.readIP(inner)
		out.Tunnel = Tunnel{From: outer.from, To: outer.to}
		return out, unsure, ok
	}
	return w.readIP(outer)
}

func (w Watch) readIP(p ip) (out Packet, unsure, ok bool) {
	out.From, out.To = netip.AddrPortFrom(p.from, 0), netip.AddrPortFrom(p.to, 0)
	switch p.proto {
	case protoICMP, protoICMPv6:
		return w.readICMP(p, out)
	case protoTCP, protoUDP:
		if len(p.upper) < sizeUDP {
			return out, false, false
		}
		out.From = netip.AddrPortFrom(p.from, binary.BigEndian.Uint16(p.upper))
		out.To = netip.AddrPortFrom(p.to, binary.BigEndian.Uint16(p.upper[2:]))
	}
	switch {
	case p.proto == protoTCP && w.Protocol == model.TCP && len(p.upper) >= sizeTCP:
		flags := p.upper[flagsAt]
		if flags&(flagSYN|flagACK) == flagSYN {
			out.Target, ok = w.sequenced(binary.BigEndian.Uint32(p.upper[sequence:]))
			return out, false, ok
		}
		if flags&flagACK == 0 || flags&(flagSYN|flagRST) == 0 {
			return out, false, false
		}
		out.Answer, out.Refusal = true, flags&flagRST != 0
		out.Target, ok = w.sequenced(binary.BigEndian.Uint32(p.upper[acknowledged:]) - 1)
		return out, false, ok
	case p.proto == protoUDP && w.Protocol == model.UDP:
		if out.Target, ok = w.marked(p.upper[payload:]); ok {
			return out, false, true
		}
		out.Answer = true
		return out, true, true
	}
	return out, false, false
}

// readICMP knows echoes with the mark, and errors that quote a marked packet.
func (w Watch) readICMP(p ip, out Packet) (_ Packet, unsure, ok bool) {
	if len(p.upper) < payload {
		return out, false, false
	}
	request, reply := byte(echo4), byte(reply4)
	if p.proto == protoICMPv6 {
		request, reply = echo6, reply6
	}
	switch kind := p.upper[0]; {
	case (kind == request || kind == reply) && w.Protocol == ping.ICMP:
		out.Answer = kind == reply
		out.Target, ok = w.marked(p.upper[payload:])
	case isError(p.proto, kind):
		quoted, whole := parseIP(p.upper[payload:])
		if !whole {
			return out, false, false
		}
		out.Answer, out.Refusal = true, true
		switch {
		case len(quoted.upper) < payload:
		case w.Protocol == model.TCP && quoted.proto == protoTCP:
			out.Target, ok = w.sequenced(binary.BigEndian.Uint32(quoted.upper[sequence:]))
		case w.Protocol == model.UDP && quoted.proto == protoUDP,
			w.Protocol == ping.ICMP && (quoted.proto == protoICMP || quoted.proto == protoICMPv6):
			out.Target, ok = w.marked(quoted.upper[payload:])
		}
	}
	return out, false, ok
}

// sequenced is the target whose connections begin with a sequence number.
func (w Watch) sequenced(number uint32) (target int, ok bool) {
	for n := range w.Targets {
		if w.Mark.Sequence(n) == number {
			return n, true
		}
	}
	return 0, false
}

// marked is the target whose payload begins so.
func (w Watch) marked(text []byte) (target int, ok bool) {
	for n := range w.Targets {
		if bytes.HasPrefix(text, w.Mark.Payload(n)) {
			return n, true
		}
	}
	return 0, false
}
