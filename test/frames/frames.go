// Package frames writes Ethernet frames by hand, honest ones and forged ones, for tests of what becomes of them.
//
// In flow addresses and a text, by which whoever receives a frame knows it again; out flow bytes. What must stay true: each forgery is a
// frame that a careless switch would deliver, so that a test which takes the defence out sees it arrive; and those who test packets alone
// (pkg/agent) and on a whole cluster (test/e2e/hostile) try the same ones (Masks, Servers, Tagged).
package frames

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// V4 is an Ethernet frame with a packet of IPv4.
type V4 struct {
	From, To       net.HardwareAddr
	Source, Target netip.Addr
	Protocol       byte
	Payload        []byte
}

// Bytes is the frame as it goes onto the wire. (RFC 791, 3.1.)
func (f V4) Bytes() []byte {
	const header = 20
	ip := make([]byte, header, header+len(f.Payload))
	ip[0], ip[8], ip[9] = 0x45, 64, f.Protocol
	binary.BigEndian.PutUint16(ip[2:], uint16(header+len(f.Payload)))
	copy(ip[12:], f.Source.AsSlice())
	copy(ip[16:], f.Target.AsSlice())
	binary.BigEndian.PutUint16(ip[10:], Checksum(ip))
	return append(append(ethernet(f.To, f.From, unix.ETH_P_IP), ip...), f.Payload...)
}

// V6 is an Ethernet frame with a packet of IPv6, which begins with the given header.
type V6 struct {
	From, To       net.HardwareAddr
	Source, Target netip.Addr
	Header         byte
	Payload        []byte
}

// Bytes is the frame as it goes onto the wire. (RFC 8200, 3.)
func (f V6) Bytes() []byte {
	out := append(ethernet(f.To, f.From, unix.ETH_P_IPV6), 0x60, 0, 0, 0)
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(f.Payload))), f.Header, 255)
	out = append(append(out, f.Source.AsSlice()...), f.Target.AsSlice()...)
	return append(out, f.Payload...)
}

func ethernet(to, from net.HardwareAddr, kind uint16) []byte {
	return binary.BigEndian.AppendUint16(append(append([]byte{}, to...), from...), kind)
}

// Checksum is the Internet checksum of an even number of bytes. (RFC 1071.)
func Checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// UDP is a datagram between two ports. It has no checksum: IPv4 allows that, and a receiver that only looks at frames asks for none.
func UDP(from, to uint16, text string) []byte {
	out := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, from), to)
	return append(binary.BigEndian.AppendUint16(out, uint16(8+len(text))), "\x00\x00"+text...)
}

// ICMP is a message of ICMP or ICMPv6, without a checksum.
func ICMP(kind byte, text string) []byte { return append([]byte{kind, 0, 0, 0}, text...) }

// Options is a header of IPv6 with no options in it, hop-by-hop or for the destination, and what follows. (RFC 8200, 4.3 and 4.6.)
func Options(next byte, payload []byte) []byte {
	return append([]byte{next, 0, 1, 4, 0, 0, 0, 0}, payload...)
}

// Fragment is a piece of a packet of IPv6. (RFC 8200, 4.5.)
func Fragment(next byte, offset int, more bool, payload []byte) []byte {
	place := uint16(offset)
	if more {
		place |= 1
	}
	return append(append(binary.BigEndian.AppendUint16([]byte{next, 0}, place), 0, 0, 0x0a, 0x70), payload...)
}

// ARPReply is a frame in which whoever has a MAC address claims an IP address, followed by a text. (RFC 826.)
func ARPReply(to, from, claims net.HardwareAddr, claimed, asked netip.Addr, text string) []byte {
	out := append(ethernet(to, from, unix.ETH_P_ARP), 0, 1, 0x08, 0, 6, 4, 0, 2)
	out = append(append(append(out, claims...), claimed.AsSlice()...), make([]byte, 6)...)
	return append(append(out, asked.AsSlice()...), text...)
}

// GratuitousARP is a claim to an address that nobody asked for. (RFC 5227.)
func GratuitousARP(from net.HardwareAddr, claimed netip.Addr) []byte {
	out := append(ethernet(Everybody(), from, unix.ETH_P_ARP), 0, 1, 0x08, 0, 6, 4, 0, 2)
	out = append(append(out, from...), claimed.AsSlice()...)
	return append(append(out, Everybody()...), claimed.AsSlice()...)
}

// The kinds of messages of neighbour discovery. (RFC 4861, 4.)
const (
	routerAdvertisement    = 134
	neighbourSolicitation  = 135
	neighbourAdvertisement = 136
	redirect6              = 137
)

// discovery is a message of neighbour discovery about a target, with a MAC address in it, and a text in an option that nobody knows.
func discovery(kind byte, target netip.Addr, mac net.HardwareAddr, text string) []byte {
	link := byte(1) // the source's
	if kind == neighbourAdvertisement {
		link = 2 // the target's
	}
	out := append([]byte{kind, 0, 0, 0, 0x20, 0, 0, 0}, target.AsSlice()...)
	return append(append(out, discoveryOption(link, mac)...), discoveryOption(254, []byte(text))...)
}

// discoveryOption is an option of neighbour discovery, padded as it must be. (RFC 4861, 4.6.)
func discoveryOption(kind byte, content []byte) []byte {
	size := (2 + len(content) + 7) / 8
	out := append([]byte{kind, byte(size)}, content...)
	return append(out, make([]byte, 8*size-len(out))...)
}

// Everybody is the MAC address of all.
func Everybody() net.HardwareAddr { return net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff} }

// allNodes is that of all machines that speak IPv6. (RFC 2464, 7.)
func allNodes() net.HardwareAddr { return net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1} }

// LinkLocal is the address that an interface gives itself by its MAC address. (RFC 4291, appendix A.)
func LinkLocal(mac net.HardwareAddr) netip.Addr {
	return netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5],
	})
}
