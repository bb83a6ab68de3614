package nb

import (
	"encoding/binary"
	"net/netip"
	"strconv"
)

// maxPortKey is the highest number that a port can ask for: what is beyond is for groups of ports (ovn-sb(5): Port_Binding.tunnel_key).
const maxPortKey = 1<<15 - 1

// PortKey is the number that a port with an address in a range asks for in its switch: which host of the range it is. With the number of
// its switch it alone says to which port of another node a packet goes. A southbound database that is made anew has the same number for it: a
// node that still has the flows of before sends nothing to another port, and a node that has the new ones drops nothing.
//
// Ports have the same number only where their addresses are 32,767 apart, or a multiple of that; ovn-northd refuses the second one's wish then, and
// numbers it by itself.
func PortKey(in netip.Prefix, address netip.Addr) string {
	host := (offset(address) - offset(in.Masked().Addr())) % maxPortKey
	return strconv.FormatUint(1+(host+maxPortKey-1)%maxPortKey, 10)
}

// offset is the low half of an address: no subnet is larger (alloc.MinBits6).
func offset(a netip.Addr) uint64 {
	bytes := a.As16()
	return binary.BigEndian.Uint64(bytes[8:])
}
