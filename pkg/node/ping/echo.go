package ping

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// cookieSize is how many random bytes of a payload tell our packets from others', where they have no Mark.
const cookieSize = 8

// family is what differs between ICMP and ICMPv6.
type family struct {
	network, any    string
	protocol        int
	request, answer icmp.Type
	// header is the length of an IP header in an error's quotation.
	header func([]byte) int
}

func familyOf(a netip.Addr) family {
	if a.Is4() {
		return family{
			"ip4:icmp", "0.0.0.0", 1, ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply, func(quoted []byte) int { return int(quoted[0]&0xf) * 4 },
		}
	}
	return family{"ip6:ipv6-icmp", "::", 58, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply, func([]byte) int { return ipv6.HeaderLen }}
}

// marks are by what an echo request is known again.
type marks struct {
	family
	target netip.Addr
	id     int
	cookie []byte
}

// echo sends echo requests by one socket.
func (s Spec) echo(number int, inside Place) (probe, func(), error) {
	target := s.Targets[number]
	m := marks{family: familyOf(target), target: target}
	var random [2 + cookieSize]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, nil, fmt.Errorf("make an echo request: %w", err)
	}
	m.id, m.cookie = int(binary.BigEndian.Uint16(random[:])), random[2:]
	if s.Mark != nil {
		m.cookie = s.Mark.Payload(number)
	}
	var conn net.PacketConn
	err := inside(func() (err error) {
		conn, err = (&net.ListenConfig{}).ListenPacket(context.Background(), m.network, m.any)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket for echo requests: %w", err)
	}
	send := func(ctx context.Context, number int) error {
		err := m.exchange(ctx, conn, number, s.Size)
		if said := (*saidError)(nil); err != nil && !errors.As(err, &said) {
			return s.why(ctx, err)
		}
		return err
	}
	return send, func() { _ = conn.Close() }, nil
}

// exchange sends one request, and waits for what answers it.
func (m marks) exchange(ctx context.Context, conn net.PacketConn, number, size int) error {
	text, err := m.question(number, size)
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	defer endWith(ctx, conn)()
	if _, err := conn.WriteTo(text, &net.IPAddr{IP: m.target.AsSlice()}); err != nil {
		return err
	}
	buffer := make([]byte, MaxSize+256)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		sender, _ := netip.ParseAddr(from.String())
		if ours, err := m.judge(buffer[:n], sender, number); ours {
			return err
		}
	}
}

// question is an echo request. What is alike would be one connection to what tracks them, so that its cookie is everybody's own.
func (m marks) question(number, size int) ([]byte, error) {
	payload := make([]byte, max(size, MinSize))
	copy(payload, m.cookie)
	if len(m.cookie) == cookieSize {
		binary.BigEndian.PutUint64(payload[cookieSize:], uint64(number))
	}
	text, err := (&icmp.Message{Type: m.request, Body: &icmp.Echo{ID: m.id, Seq: number & 0xffff, Data: payload}}).Marshal(nil)
	if err != nil {
		return nil, fmt.Errorf("write an echo request: %w", err)
	}
	return text, nil
}

// saidError is what somebody has said of a packet.
type saidError struct{ what string }

// Error implements error.
func (e *saidError) Error() string { return e.what }

// judge reports whether a message is about the request of a number, and, as an error, if it is none that answers it.
func (m marks) judge(text []byte, from netip.Addr, number int) (ours bool, err error) {
	message, err := icmp.ParseMessage(m.protocol, text)
	if err != nil {
		return false, nil //nolint:nilerr // What cannot be read, is none of ours.
	}
	switch body := message.Body.(type) {
	case *icmp.Echo:
		// An answer repeats the payload.
		if message.Type != m.answer || body.ID != m.id || body.Seq != number&0xffff || !bytes.HasPrefix(body.Data, m.cookie) {
			return false, nil
		}
		if from != m.target {
			return true, &saidError{fmt.Sprintf("another answers: %s", from)}
		}
		return true, nil
	case *icmp.DstUnreach:
		return m.quotes(body.Data, number), &saidError{fmt.Sprintf("%s says: destination unreachable (code %d)", from, message.Code)}
	case *icmp.TimeExceeded:
		return m.quotes(body.Data, number), &saidError{fmt.Sprintf("%s says: time exceeded: it goes in a circle", from)}
	case *icmp.PacketTooBig:
		return m.quotes(body.Data, number), &saidError{fmt.Sprintf("%s says: it is too big, %d bytes would pass", from, body.MTU)}
	}
	return false, nil
}

// quotes reports whether an error quotes our request: its IP header, and the first 8 bytes at least. (RFC 792, RFC 4443.)
func (m marks) quotes(quoted []byte, number int) bool {
	if len(quoted) == 0 {
		return false
	}
	header := m.header(quoted)
	if len(quoted) < header+8 {
		return false
	}
	request := quoted[header:]
	first := byte(ipv4.ICMPTypeEcho)
	if m.target.Is6() {
		first = byte(ipv6.ICMPTypeEchoRequest)
	}
	return request[0] == first && int(binary.BigEndian.Uint16(request[4:])) == m.id &&
		int(binary.BigEndian.Uint16(request[6:])) == number&0xffff
}
