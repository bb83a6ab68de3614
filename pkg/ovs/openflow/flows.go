package openflow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// Kinds of questions and their parts. (ofp_multipart_type; ofp_flow_stats_request.)
const (
	askFlows     = 1
	askAggregate = 2

	multipartLength = 8
	flagMore        = 1
	anyPort         = 0xffffffff
)

// AnyTable asks for the flows of all tables.
const AnyTable = 0xff

// Selection are the flows with a cookie, in a table or in AnyTable.
type Selection struct {
	Cookie uint64
	Table  uint8
}

// Count is what flows have matched since each of them was installed. Open vSwitch brings it up to date twice a second.
type Count struct {
	Flows   uint32
	Packets uint64
}

// Flow is one flow.
type Flow struct {
	Table    uint8
	Priority uint16
	Packets  uint64
	// Datapath, InPort and OutPort are the numbers of the logical datapath, and of the logical ports by which packets come in and go
	// out, that the flow matches, as OVN keeps them; 0 where it does not. (ovn-architecture(7): metadata, reg14, reg15.)
	Datapath, InPort, OutPort uint32
}

// Counts asks for each selection; the answers are in the same order.
func (c *Conn) Counts(ctx context.Context, of []Selection) ([]Count, error) {
	defer c.until(ctx)()
	first := c.xid + 1
	c.xid += uint32(len(of))
	written := make(chan error, 1)
	// ovs-vswitchd reads no more while a hundred answers wait to be taken.
	go func() {
		for i, s := range of {
			if err := c.write(question(askAggregate, first+uint32(i), s)); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	out := make([]Count, len(of))
	var err error
	for left := len(of); left > 0 && err == nil; {
		var m message
		if m, err = c.answer(); err != nil {
			break
		}
		i := m.xid - first
		if i >= uint32(len(of)) {
			continue
		}
		if out[i], err = countOf(m.body); err == nil {
			left--
		}
	}
	if err != nil {
		// Whoever writes still must not wait for ever.
		c.Close()
	}
	return out, errors.Join(err, <-written)
}

// Flows lists the flows of a selection.
func (c *Conn) Flows(ctx context.Context, s Selection) ([]Flow, error) {
	defer c.until(ctx)()
	c.xid++
	if err := c.write(question(askFlows, c.xid, s)); err != nil {
		return nil, err
	}
	var out []Flow
	for {
		m, err := c.answer()
		if err != nil {
			return nil, err
		}
		if m.xid != c.xid {
			continue
		}
		flows, err := flowsOf(m.body[multipartLength:])
		if err != nil {
			return nil, err
		}
		out = append(out, flows...)
		if binary.BigEndian.Uint16(m.body[2:])&flagMore == 0 {
			return out, nil
		}
	}
}

func question(kind uint16, xid uint32, s Selection) []byte {
	body := binary.BigEndian.AppendUint16(nil, kind)
	body = append(body, 0, 0, 0, 0, 0, 0)
	body = append(body, s.Table, 0, 0, 0)
	body = binary.BigEndian.AppendUint32(body, anyPort)
	body = binary.BigEndian.AppendUint32(body, anyPort)
	body = append(body, 0, 0, 0, 0)
	body = binary.BigEndian.AppendUint64(body, s.Cookie)
	body = binary.BigEndian.AppendUint64(body, ^uint64(0))
	// A match of everything. (ofp_match, of type OFPMT_OXM.)
	body = append(body, 0, 1, 0, 4, 0, 0, 0, 0)
	return encode(typeMultipartRequest, xid, body)
}

// answer waits for the next answer to a question. What the bridge tells by itself is of no interest.
func (c *Conn) answer() (message, error) {
	for {
		m, err := c.read()
		if err != nil {
			return m, err
		}
		switch m.kind {
		case typeEchoRequest:
			if err := c.write(encode(typeEchoReply, m.xid, m.body)); err != nil {
				return m, err
			}
		case typeMultipartReply:
			if len(m.body) < multipartLength {
				return m, fmt.Errorf("read from the bridge: an answer of %d bytes", len(m.body))
			}
			return m, nil
		}
	}
}

// countOf reads an ofp_aggregate_stats_reply.
func countOf(body []byte) (Count, error) {
	if len(body) < multipartLength+20 {
		return Count{}, fmt.Errorf("read count: an answer of %d bytes", len(body))
	}
	body = body[multipartLength:]
	return Count{Packets: binary.BigEndian.Uint64(body), Flows: binary.BigEndian.Uint32(body[16:])}, nil
}

// flowsOf reads a list of ofp_flow_stats.
func flowsOf(body []byte) ([]Flow, error) {
	const fixed = 48
	var out []Flow
	for len(body) > 0 {
		if len(body) < fixed+4 {
			return nil, fmt.Errorf("read flow: %d bytes are left", len(body))
		}
		length := int(binary.BigEndian.Uint16(body))
		matches := int(binary.BigEndian.Uint16(body[fixed+2:]))
		if length > len(body) || matches < 4 || fixed+matches > length {
			return nil, fmt.Errorf("read flow: %d bytes with a match of %d, of %d that are left", length, matches, len(body))
		}
		f := Flow{Table: body[2], Priority: binary.BigEndian.Uint16(body[12:]), Packets: binary.BigEndian.Uint64(body[32:])}
		if err := f.readMatch(body[fixed+4 : fixed+matches]); err != nil {
			return nil, err
		}
		out = append(out, f)
		body = body[length:]
	}
	return out, nil
}

// The fields of a match that are read: classes and numbers. (ofp_oxm_class; ovs-fields(7).)
const (
	classBasic     = 0x8000
	fieldMetadata  = 2
	classRegisters = 0x0001
	fieldIn        = 14
	fieldOut       = 15
)

// readMatch reads what a flow matches: fields, each with its class, number and length before it.
func (f *Flow) readMatch(fields []byte) error {
	for len(fields) > 0 {
		if len(fields) < 4 || 4+int(fields[3]) > len(fields) {
			return fmt.Errorf("read match of a flow: %d bytes are left", len(fields))
		}
		class, number, value := binary.BigEndian.Uint16(fields), fields[2]>>1, fields[4:4+int(fields[3])]
		switch {
		case class == classBasic && number == fieldMetadata && len(value) >= 8:
			f.Datapath = uint32(binary.BigEndian.Uint64(value))
		case class == classRegisters && number == fieldIn && len(value) >= 4:
			f.InPort = binary.BigEndian.Uint32(value)
		case class == classRegisters && number == fieldOut && len(value) >= 4:
			f.OutPort = binary.BigEndian.Uint32(value)
		}
		fields = fields[4+int(fields[3]):]
	}
	return nil
}
