package frame

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
)

// Protocol is what a packet carries.
type Protocol string

// The protocols. ICMP is an echo; in a packet of IPv6 that is ICMPv6's.
const (
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
	ICMP Protocol = "ICMP"
)

// Packet is the first packet of a connection, or the first answer to it.
type Packet struct {
	// From and To are the ends. An echo has no ports: its identifier is the port of the end that asks, and the other
	// one's is 0.
	From, To netip.AddrPort
	Protocol Protocol
	Answer   bool
}

// numbers of protocols in IPv4 and IPv6. (IANA, Protocol Numbers.)
func (p Packet) number() byte {
	switch p.Protocol {
	case TCP:
		return 6
	case UDP:
		return 17
	case SCTP:
		return 132
	case ICMP:
	}
	if p.From.Addr().Is6() {
		return 58
	}
	return 1
}

const (
	etherLen = 14
	ipv4Len  = 20
	ipv6Len  = 40
	hops     = 64

	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherARP  = 0x0806
)

// Frame is the packet on its way from one interface to another.
func (p Packet) Frame(from, to net.HardwareAddr) ([]byte, error) {
	if p.From.Addr().Is4() != p.To.Addr().Is4() || len(from) != 6 || len(to) != 6 {
		return nil, fmt.Errorf("write a frame from %s %s to %s %s: the addresses do not fit", from, p.From, to, p.To)
	}
	body := p.body()
	out := append(append([]byte{}, to...), from...)
	if p.From.Addr().Is4() {
		header := make([]byte, ipv4Len)
		header[0], header[8], header[9] = 4<<4|ipv4Len/4, hops, p.number()
		binary.BigEndian.PutUint16(header[2:], uint16(ipv4Len+len(body)))
		copy(header[12:], p.From.Addr().AsSlice())
		copy(header[16:], p.To.Addr().AsSlice())
		binary.BigEndian.PutUint16(header[10:], checksum(header))
		out = binary.BigEndian.AppendUint16(out, etherIPv4)
		return append(append(out, header...), body...), nil
	}
	header := make([]byte, ipv6Len)
	header[0], header[6], header[7] = 6<<4, p.number(), hops
	binary.BigEndian.PutUint16(header[4:], uint16(len(body)))
	copy(header[8:], p.From.Addr().AsSlice())
	copy(header[24:], p.To.Addr().AsSlice())
	out = binary.BigEndian.AppendUint16(out, etherIPv6)
	return append(append(out, header...), body...), nil
}

// Values that only have to be plausible to whoever follows the connection.
const (
	sequence = 1000
	tag      = 0xa701
	window   = 65535
)

const (
	tcpSYN, tcpACK        = 0x02, 0x10
	sctpInit, sctpInitAck = 1, 2
	sctpChunk             = 20
)

// body is the packet without its IP header: an opening segment of TCP (RFC 9293), a datagram (RFC 768), the first chunk of
// an association (RFC 9260), or an echo (RFC 792, RFC 4443).
func (p Packet) body() []byte {
	var b []byte
	switch p.Protocol {
	case TCP:
		b = p.withPorts(20)
		binary.BigEndian.PutUint32(b[4:], sequence)
		b[12], b[13] = 5<<4, tcpSYN
		if p.Answer {
			binary.BigEndian.PutUint32(b[8:], sequence+1)
			b[13] |= tcpACK
		}
		binary.BigEndian.PutUint16(b[14:], window)
		binary.BigEndian.PutUint16(b[16:], checksum(p.pseudo(len(b)), b))
	case UDP:
		b = append(p.withPorts(8), p.word()...)
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[6:], checksum(p.pseudo(len(b)), b))
	case SCTP:
		b = p.withPorts(12 + sctpChunk)
		b[12] = sctpInit
		if p.Answer {
			binary.BigEndian.PutUint32(b[4:], tag)
			b[12] = sctpInitAck
		}
		binary.BigEndian.PutUint16(b[14:], sctpChunk)
		for i, value := range []uint32{tag, window, 1<<16 | 1, 1} {
			binary.BigEndian.PutUint32(b[16+4*i:], value)
		}
		binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	case ICMP:
		b = append(make([]byte, 8), p.word()...)
		b[0] = p.echo()
		binary.BigEndian.PutUint16(b[4:], p.From.Port()|p.To.Port())
		sum := checksum(b)
		if p.From.Addr().Is6() {
			sum = checksum(p.pseudo(len(b)), b)
		}
		binary.BigEndian.PutUint16(b[2:], sum)
	}
	return b
}

// word tells an answer from a question where no header does.
func (p Packet) word() []byte {
	if p.Answer {
		return []byte("answer")
	}
	return []byte("asking")
}

// echo is the type of an echo.
func (p Packet) echo() byte {
	types := map[bool][2]byte{false: {8, 0}, true: {128, 129}}[p.From.Addr().Is6()]
	if p.Answer {
		return types[1]
	}
	return types[0]
}

func (p Packet) withPorts(length int) []byte {
	b := make([]byte, length)
	binary.BigEndian.PutUint16(b, p.From.Port())
	binary.BigEndian.PutUint16(b[2:], p.To.Port())
	return b
}

// pseudo is what the checksum covers of the IP header. (RFC 9293, section 3.1; RFC 8200, section 8.1.)
func (p Packet) pseudo(length int) []byte {
	b := append(p.From.Addr().AsSlice(), p.To.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint32(b, uint32(length))
	return append(b, 0, 0, 0, p.number())
}

// checksum is the Internet checksum of all parts, of which only the last may have an odd length. (RFC 1071.)
func checksum(parts ...[]byte) uint16 {
	var sum uint32
	for _, b := range parts {
		for i, octet := range b {
			if i%2 == 0 {
				sum += uint32(octet) << 8
			} else {
				sum += uint32(octet)
			}
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
