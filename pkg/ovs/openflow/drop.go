package openflow

import (
	"context"
	"encoding/binary"
)

// Parts of a message that adds a flow. (ofp_flow_mod; ofp_oxm_class; oxm_ofb_match_fields.)
const (
	fieldEtherType  = 5
	fieldIPProtocol = 10
	fieldICMPv6Type = 29

	etherIPv6      = 0x86dd
	protocolICMPv6 = 58
)

// Drop is a flow of a bridge's first table by which it drops all messages of a type of ICMPv6, from whatever port they come.
type Drop struct {
	Cookie     uint64
	Priority   uint16
	ICMPv6Type uint8
}

// Drop adds the flow. One that is there already stays as it is.
func (c *Conn) Drop(ctx context.Context, d Drop) error {
	defer c.until(ctx)()
	// Cookie and its mask; table 0, to add, without time limits.
	body := append(binary.BigEndian.AppendUint64(nil, d.Cookie), make([]byte, 8+1+1+2+2)...)
	body = binary.BigEndian.AppendUint16(body, d.Priority)
	// No buffered packet; port, group, flags and padding do not matter here.
	body = append(binary.BigEndian.AppendUint32(body, ^uint32(0)), make([]byte, 4+4+2+2)...)
	fields := field(fieldEtherType, binary.BigEndian.AppendUint16(nil, etherIPv6))
	fields = append(fields, field(fieldIPProtocol, []byte{protocolICMPv6})...)
	fields = append(fields, field(fieldICMPv6Type, []byte{d.ICMPv6Type})...)
	length := 4 + len(fields)
	body = append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(body, 1), uint16(length)), fields...)
	body = append(body, make([]byte, (8-length%8)%8)...)
	// A flow without instructions drops.
	first := c.xid + 1
	c.xid += 2
	if err := c.write(append(encode(typeFlowMod, first, body), encode(typeBarrierRequest, c.xid, nil)...)); err != nil {
		return err
	}
	for {
		m, err := c.read()
		if err != nil || m.kind == typeBarrierReply && m.xid == c.xid {
			return err
		}
		if m.kind == typeEchoRequest {
			if err := c.write(encode(typeEchoReply, m.xid, m.body)); err != nil {
				return err
			}
		}
	}
}

// field is a field of a match.
func field(number byte, value []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, classBasic), append([]byte{number << 1, byte(len(value))}, value...)...)
}
