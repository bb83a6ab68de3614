package openflow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Messages of OpenFlow 1.3 (ofp_header, ofp_type).
const (
	version      = 0x04
	headerLength = 8

	typeHello            = 0
	typeError            = 1
	typeEchoRequest      = 2
	typeEchoReply        = 3
	typeFlowMod          = 14
	typeMultipartRequest = 18
	typeMultipartReply   = 19
	typeBarrierRequest   = 20
	typeBarrierReply     = 21
)

// patience bounds one call when its context does not.
const patience = 10 * time.Second

// ErrVersion: the bridge's column protocols leaves out the version that we speak.
var ErrVersion = errors.New("the bridge does not speak OpenFlow 1.3 (ovs-vsctl get bridge NAME protocols)")

// Conn is a connection to a bridge. It is for one goroutine at a time.
type Conn struct {
	conn net.Conn
	xid  uint32
}

// message is a whole message without its header.
type message struct {
	kind uint8
	xid  uint32
	body []byte
}

// Dial connects to the management socket of a bridge: NAME.mgmt in Open vSwitch's directory.
func Dial(ctx context.Context, socket string) (*Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("reach the bridge: %w", err)
	}
	c := &Conn{conn: conn}
	if err := c.greet(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("greet the bridge at %s: %w", socket, err)
	}
	return c, nil
}

// Close ends the connection.
func (c *Conn) Close() { _ = c.conn.Close() }

// greet agrees on the version. The bitmap in our greeting offers only one. A switch that does not speak it sends its own greeting
// and then an error, instead of an answer to the next message. (OpenFlow 1.3.1, 6.3.1.)
func (c *Conn) greet(ctx context.Context) error {
	defer c.until(ctx)()
	bitmap := binary.BigEndian.AppendUint32([]byte{0, 1, 0, 8}, 1<<version)
	if err := c.write(append(encode(typeHello, 0, bitmap), encode(typeEchoRequest, 0, nil)...)); err != nil {
		return err
	}
	for {
		m, err := c.read()
		if err != nil || m.kind == typeEchoReply {
			return err
		}
	}
}

// until has reads and writes end with ctx, or after some time, until the function that it returns is called.
func (c *Conn) until(ctx context.Context) (stop func()) {
	_ = c.conn.SetDeadline(time.Now().Add(patience)) // a socket has deadlines
	done := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	return func() { done() }
}

func encode(kind uint8, xid uint32, body []byte) []byte {
	out := []byte{version, kind}
	out = binary.BigEndian.AppendUint16(out, uint16(headerLength+len(body)))
	out = binary.BigEndian.AppendUint32(out, xid)
	return append(out, body...)
}

func (c *Conn) write(b []byte) error {
	if _, err := c.conn.Write(b); err != nil {
		return fmt.Errorf("write to the bridge: %w", err)
	}
	return nil
}

// read reads one message, whatever it is.
func (c *Conn) read() (message, error) {
	var header [headerLength]byte
	if _, err := io.ReadFull(c.conn, header[:]); err != nil {
		return message{}, fmt.Errorf("read from the bridge: %w", err)
	}
	m := message{kind: header[1], xid: binary.BigEndian.Uint32(header[4:])}
	length := int(binary.BigEndian.Uint16(header[2:]))
	if length < headerLength {
		return m, fmt.Errorf("read from the bridge: a message of %d bytes", length)
	}
	m.body = make([]byte, length-headerLength)
	if _, err := io.ReadFull(c.conn, m.body); err != nil {
		return m, fmt.Errorf("read from the bridge: %w", err)
	}
	// A greeting may be of a later version.
	if header[0] != version && m.kind != typeHello {
		return m, ErrVersion
	}
	if m.kind == typeError {
		return m, refusal(m.body)
	}
	return m, nil
}

// refusal is what an error message says. (ofp_error_msg; ofp_error_type 0: the versions do not agree.)
func refusal(body []byte) error {
	if len(body) < 4 {
		return errors.New("the bridge refused, without a reason")
	}
	kind, code := binary.BigEndian.Uint16(body), binary.BigEndian.Uint16(body[2:])
	if kind == 0 {
		return ErrVersion
	}
	return fmt.Errorf("the bridge refused with error %d, code %d", kind, code)
}
