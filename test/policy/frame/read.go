package frame

import (
	"encoding/binary"
	"net/netip"
)

// Read says which packet a frame carries; false for any that Frame does not write.
func Read(b []byte) (Packet, bool) {
	if len(b) < etherLen {
		return Packet{}, false
	}
	var from, to netip.Addr
	var number byte
	switch rest := b[etherLen:]; binary.BigEndian.Uint16(b[12:]) {
	case etherIPv4:
		if len(rest) < ipv4Len || rest[0] != 4<<4|ipv4Len/4 {
			return Packet{}, false
		}
		length := int(binary.BigEndian.Uint16(rest[2:]))
		if length < ipv4Len || length > len(rest) {
			return Packet{}, false
		}
		from, to, number = netip.AddrFrom4([4]byte(rest[12:])), netip.AddrFrom4([4]byte(rest[16:])), rest[9]
		b = rest[ipv4Len:length]
	case etherIPv6:
		if len(rest) < ipv6Len {
			return Packet{}, false
		}
		length := ipv6Len + int(binary.BigEndian.Uint16(rest[4:]))
		if length > len(rest) {
			return Packet{}, false
		}
		from, to, number = netip.AddrFrom16([16]byte(rest[8:])), netip.AddrFrom16([16]byte(rest[24:])), rest[6]
		b = rest[ipv6Len:length]
	default:
		return Packet{}, false
	}
	for _, protocol := range []Protocol{TCP, UDP, SCTP, ICMP} {
		p := Packet{From: netip.AddrPortFrom(from, 0), To: netip.AddrPortFrom(to, 0), Protocol: protocol}
		if p.number() == number {
			return p.read(b)
		}
	}
	return Packet{}, false
}

// read takes ports, and whether it is an answer, out of a body.
func (p Packet) read(b []byte) (Packet, bool) {
	if len(b) < 8 {
		return p, false
	}
	from, to := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	switch p.Protocol {
	case TCP:
		if len(b) < 20 || b[13]&tcpSYN == 0 {
			return p, false
		}
		p.Answer = b[13]&tcpACK != 0
	case UDP:
		p.Answer = string(b[8:]) == string(Packet{Answer: true}.word())
		if !p.Answer && string(b[8:]) != string(p.word()) {
			return p, false
		}
	case SCTP:
		if len(b) < 12+sctpChunk {
			return p, false
		}
		p.Answer = b[12] == sctpInitAck
		if !p.Answer && b[12] != sctpInit {
			return p, false
		}
	case ICMP:
		identifier := binary.BigEndian.Uint16(b[4:])
		p.Answer = b[0] != p.echo()
		if p.Answer && b[0] != p.echo() {
			return p, false
		}
		if from, to = identifier, 0; p.Answer {
			from, to = 0, identifier
		}
	}
	p.From, p.To = netip.AddrPortFrom(p.From.Addr(), from), netip.AddrPortFrom(p.To.Addr(), to)
	return p, true
}
