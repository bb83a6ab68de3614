package model

import (
	"encoding/binary"
	"net/netip"
)

// PortNumbers is how many numbers the ports of a switch can ask for, from 1 on: what is beyond is for groups of ports (ovn-sb(5):
// Port_Binding.tunnel_key).
const PortNumbers = 1<<15 - 1

// PortNumber is the number that a port with an address in a range asks for in its switch: which host of the range it is. With the
// number of its switch it alone says to which port of another node a packet goes. A southbound database that is made anew has the
// same number for it: a node that still has the flows of before sends nothing to another port, and a node that has the new ones
// drops nothing.
//
// Ports have the same number only where their addresses are PortNumbers apart, or a multiple of that. alloc.Pool gives no such
// two, and nobody gets one by asking for it: of two ports with one wish ovn-northd numbers the second by itself, and computes
// everything anew, for all Networks, with each change of it. The number that it chooses is the next that the pool gives, so that
// each pod after it would do the same.
func PortNumber(in netip.Prefix, address netip.Addr) int {
	return NumberOfHost(low64(address) - low64(in.Masked().Addr()))
}

// NumberOfHost is the PortNumber of the host with that offset in its range.
func NumberOfHost(offset uint64) int {
	return int(1 + (offset%PortNumbers+PortNumbers-1)%PortNumbers)
}

// low64 is the low half of an address: no subnet is larger (alloc.MinBits6).
func low64(a netip.Addr) uint64 {
	bytes := a.As16()
	return binary.BigEndian.Uint64(bytes[8:])
}
