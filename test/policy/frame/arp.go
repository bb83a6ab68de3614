package frame

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// Operations of ARP. (RFC 826.)
const (
	arpRequest = 1
	arpReply   = 2
	arpLen     = 28
)

// WhoHas asks everybody for the owner of an IPv4 address.
func WhoHas(target netip.Addr, from net.HardwareAddr, own netip.Addr) []byte {
	b := make([]byte, etherLen+arpLen)
	for i := range 6 {
		b[i] = 0xff
	}
	copy(b[6:], from)
	binary.BigEndian.PutUint16(b[12:], etherARP)
	arp := b[etherLen:]
	binary.BigEndian.PutUint16(arp, 1)
	binary.BigEndian.PutUint16(arp[2:], etherIPv4)
	arp[4], arp[5] = 6, 4
	binary.BigEndian.PutUint16(arp[6:], arpRequest)
	copy(arp[8:], from)
	copy(arp[14:], own.AsSlice())
	copy(arp[24:], target.AsSlice())
	return b
}

// IsReply reports whether a frame is an answer to WhoHas.
func IsReply(b []byte) bool {
	return len(b) >= etherLen+arpLen && binary.BigEndian.Uint16(b[12:]) == etherARP && binary.BigEndian.Uint16(b[etherLen+6:]) == arpReply
}
