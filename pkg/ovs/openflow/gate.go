package openflow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/atoll-net/atoll/pkg/process/gate"
)

// Gate lets a controller's messages through to a bridge as far as it may send them. Each is judged by its own header, as
// ovs-vswitchd reads it: one of another version than was agreed on it does not do.
type Gate struct {
	// Writes: all messages are let through.
	Writes bool
	// Socket is the path of the bridge's management socket.
	Socket string
}

// Join has a client talk to the bridge. ovs-vswitchd ends a connection whose client says nothing for a second, and a client may
// need longer for its first message. So Join closes server, waits for that message, and connects to Socket then.
func (g Gate) Join(ctx context.Context, client, server net.Conn, b gate.Bounds) (refused int, why error) {
	_ = server.Close()
	client, err := gate.Spoken(ctx, client, b)
	if err != nil {
		return 0, err
	}
	server, err = new(net.Dialer).DialContext(ctx, "unix", g.Socket)
	if err != nil {
		return 0, fmt.Errorf("reach the bridge: %w", err)
	}
	return gate.Join(ctx, client, server, g.pass, &frames{}, b)
}

// The versions whose messages are known. (OpenFlow 1.0.0, 1.1.0, …: ofp_header.)
const (
	oldest = 0x01
	newest = 0x06
	// numbered anew were the messages from 16 on with the second version.
	renumbered = 0x02
)

// Messages that are judged by what is in them.
const (
	typeVendor = 4
	nicira     = 0x2320
	experiment = 0xffff
	setTables  = 12
)

// gateTypes are the messages that change nothing: greetings, errors, echoes, questions about features and settings, and barriers.
func gateTypes(version byte) []byte {
	if version < renumbered {
		return []byte{typeHello, typeError, typeEchoRequest, typeEchoReply, 5, 7, 18, 20}
	}
	return []byte{typeHello, typeError, typeEchoRequest, typeEchoReply, 5, 7, typeBarrierRequest, 22, 26}
}

// gateStatistics are the questions whose answer may come in parts (ofp_stats_types, ofp_multipart_type): of the bridge, flows,
// tables, ports, queues, groups, meters. Left out is 16, which has ovs-vswitchd tell of each change of a flow.
var gateStatistics = []uint16{0, askFlows, askAggregate, 3, 4, 5, 6, 7, 8, 9, 10, 11, setTables, 13, 14, 15}

// gateNicira are messages of Nicira's, by which older versions of OpenFlow ask for flows with all that they match: what holds for
// this connection alone (set flow format, flow_mod table id), and the question about tunnel options. (Open vSwitch, ofp-msgs.h.)
var gateNicira = []uint32{12, 15, 25}

// gateNiciraStatistics are its questions about flows and their sum, IPFIX, and groups. Left out is 2, as 16 above.
var gateNiciraStatistics = []uint32{0, 1, 3, 4, 6, 7, 8}

// reads reports whether a whole message changes nothing.
func reads(m []byte) bool {
	version, kind, body := m[0], m[1], m[headerLength:]
	if version < oldest || version > newest {
		// A greeting may be of a version to come.
		return kind == typeHello
	}
	statistics := byte(typeMultipartRequest)
	if version < renumbered {
		statistics = 16
	}
	switch kind {
	case typeVendor:
		return len(body) >= 8 && binary.BigEndian.Uint32(body) == nicira && slices.Contains(gateNicira, binary.BigEndian.Uint32(body[4:]))
	case statistics:
		return readsStatistics(version, body)
	}
	return slices.Contains(gateTypes(version), kind)
}

func readsStatistics(version byte, body []byte) bool {
	const begin = 4
	if len(body) < begin {
		return false
	}
	kind, flags, rest := binary.BigEndian.Uint16(body), binary.BigEndian.Uint16(body[2:]), body[begin:]
	if version >= renumbered {
		// Padding.
		if len(rest) < multipartLength-begin {
			return false
		}
		rest = rest[multipartLength-begin:]
	}
	switch {
	case flags != 0: // There is more of it to come.
		return false
	case kind == experiment:
		return len(rest) >= 8 && binary.BigEndian.Uint32(rest) == nicira &&
			slices.Contains(gateNiciraStatistics, binary.BigEndian.Uint32(rest[4:]))
	case kind == setTables: // With a body it sets what tables do.
		return len(rest) == 0
	}
	return slices.Contains(gateStatistics, kind)
}

// notPermitted is the error of a message that is refused. (ofp_error_type OFPET_BAD_REQUEST, OFPBRC_EPERM: in each version the same.)
func notPermitted(m []byte) []byte {
	const badRequest, permission, shown = 1, 5, 64
	body := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, badRequest), permission)
	body = append(body, m[:min(len(m), shown)]...)
	out := encode(typeError, binary.BigEndian.Uint32(m[4:]), body)
	out[0] = m[0]
	return out
}

// errNoOpenFlow is the error of what is no message.
var errNoOpenFlow = errors.New("it is no message of OpenFlow")

// pass judges a client.
func (g Gate) pass(client io.Reader, server, answers io.Writer) (refused int, err error) {
	for {
		var header [headerLength]byte
		if _, err := io.ReadFull(client, header[:]); errors.Is(err, io.EOF) {
			return refused, nil
		} else if err != nil {
			return refused, fmt.Errorf("read a message: %w", err)
		}
		length := int(binary.BigEndian.Uint16(header[2:]))
		if length < headerLength {
			return refused, errNoOpenFlow
		}
		m := make([]byte, length)
		copy(m, header[:])
		if _, err := io.ReadFull(client, m[headerLength:]); err != nil {
			return refused, fmt.Errorf("read a message: %w", err)
		}
		to, text := server, m
		if !g.Writes && !reads(m) {
			refused++
			to, text = answers, notPermitted(m)
		}
		if _, err := to.Write(text); err != nil {
			return refused, err
		}
	}
}

// frames follow a bridge's messages.
type frames struct {
	// header is that of the message that the bridge is in, as far as it has come, and left how much of the rest is to come.
	header []byte
	left   int
}

// Follow implements gate.Follower.
func (f *frames) Follow(p []byte) (over int, err error) {
	for i := 0; i < len(p); {
		if f.left == 0 {
			n := min(headerLength-len(f.header), len(p)-i)
			f.header = append(f.header, p[i:i+n]...)
			if i += n; len(f.header) < headerLength {
				return over, nil
			}
			length := int(binary.BigEndian.Uint16(f.header[2:]))
			if length < headerLength {
				return over, errNoOpenFlow
			}
			f.left = length - headerLength
		}
		n := min(f.left, len(p)-i)
		i, f.left = i+n, f.left-n
		if f.left == 0 {
			f.header, over = f.header[:0], i
		}
	}
	return over, nil
}

// Between implements gate.Follower.
func (f *frames) Between() bool { return len(f.header) == 0 }
