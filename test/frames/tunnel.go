package frames

import "encoding/binary"

// Inner says where in OVN a frame is that a tunnel carries: keys of the southbound database.
type Inner struct {
	// Datapath is the logical switch's; From and To are ports of it. A frame does not leave by the port that it came by.
	Datapath, From, To uint32
}

// Geneve is what a node sends to another in a tunnel, from the header of Geneve on. (RFC 8926, 3.4; ovn-architecture(7), "Tunnel
// Encapsulations".)
func Geneve(in Inner, frame []byte) []byte {
	// One option of one word: OVN's class and type, and in it the ports from and to.
	out := binary.BigEndian.AppendUint32(nil, 2<<24|0x6558)
	out = binary.BigEndian.AppendUint32(out, in.Datapath<<8)
	out = binary.BigEndian.AppendUint32(out, 0x0102<<16|0x80<<8|1)
	out = binary.BigEndian.AppendUint32(out, in.From<<16|in.To)
	return append(out, frame...)
}
