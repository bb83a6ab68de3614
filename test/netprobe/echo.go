package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// The protocol numbers of ICMP and ICMPv6 (IANA).
const (
	protocolICMP   = 1
	protocolICMPv6 = 58
)

// echoTypes returns the protocol number and the types of an echo request and its reply.
func echoTypes(v6 bool) (protocol int, request, reply icmp.Type) {
	if v6 {
		return protocolICMPv6, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	return protocolICMP, ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply
}

// echoToken returns the token of packet if it is an echo message of type want.
func echoToken(packet []byte, protocol int, want icmp.Type) (string, bool) {
	message, err := icmp.ParseMessage(protocol, packet)
	if err != nil || message.Type != want {
		return "", false
	}
	echo, ok := message.Body.(*icmp.Echo)
	if !ok || !wire.ValidToken(string(echo.Data)) {
		return "", false
	}
	return string(echo.Data), true
}

// watchEcho records the echo requests that arrive. The kernel answers them by itself.
func (s *server) watchEcho(conn net.PacketConn) error {
	protocol, request, _ := echoTypes(addrOf(conn.LocalAddr()).Is6())
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return fmt.Errorf("read echo requests: %w", err)
		}
		if token, ok := echoToken(buf[:n], protocol, request); ok {
			s.seen.add(wire.Sighting{Token: token, Protocol: wire.ICMP, From: addrOf(from)})
		}
	}
}

// pinger sends echo requests of one IP family over one raw socket and hands each reply to whoever waits for
// its token.
type pinger struct {
	conn     net.PacketConn
	protocol int
	request  icmp.Type
	reply    icmp.Type

	mu      sync.Mutex
	waiting map[string]chan time.Time
}

// newPinger opens the socket. The caller runs receive in a goroutine and ends it with conn.Close.
func newPinger(v6 bool) (*pinger, error) {
	network, address := "ip4:icmp", "0.0.0.0"
	if v6 {
		network, address = "ip6:ipv6-icmp", "::"
	}
	conn, err := net.ListenPacket(network, address)
	if err != nil {
		return nil, fmt.Errorf("open a raw socket for %s: %w", network, err)
	}
	p := &pinger{conn: conn, waiting: map[string]chan time.Time{}}
	p.protocol, p.request, p.reply = echoTypes(v6)
	return p, nil
}

// receive delivers replies until the socket is closed.
func (p *pinger) receive() {
	buf := make([]byte, 1500)
	for {
		n, _, err := p.conn.ReadFrom(buf)
		now := time.Now()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		token, ok := echoToken(buf[:n], p.protocol, p.reply)
		if !ok {
			continue
		}
		p.mu.Lock()
		if ch := p.waiting[token]; ch != nil {
			select {
			case ch <- now:
			default:
			}
		}
		p.mu.Unlock()
	}
}

// probe asks t until it answers or ctx ends.
func (p *pinger) probe(ctx context.Context, t wire.Target) wire.Result {
	result := wire.Result{Token: t.Token}
	answered := make(chan time.Time, 1)
	p.mu.Lock()
	p.waiting[t.Token] = answered
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waiting, t.Token)
		p.mu.Unlock()
	}()
	tick := time.NewTicker(tryEvery)
	defer tick.Stop()
	for {
		result.Tries++
		sent := time.Now()
		if err := p.send(t, result.Tries); err != nil {
			result.Error = err.Error()
		}
		select {
		case at := <-answered:
			result.Answered, result.RTT, result.Error = true, at.Sub(sent), ""
			return result
		case <-ctx.Done():
			return result
		case <-tick.C:
		}
	}
}

func (p *pinger) send(t wire.Target, seq int) error {
	message := icmp.Message{Type: p.request, Body: &icmp.Echo{ID: identifier(t.Token), Seq: seq & 0xffff, Data: []byte(t.Token)}}
	// The kernel fills in the checksum of ICMPv6, which covers addresses.
	packet, err := message.Marshal(nil)
	if err != nil {
		return fmt.Errorf("encode an echo request: %w", err)
	}
	if _, err := p.conn.WriteTo(packet, ipAddr(t.Address)); err != nil {
		return fmt.Errorf("send an echo request: %w", err)
	}
	return nil
}

// identifier is that of a probe's echo requests (RFC 792): each has its own. With one for all, a request to an address that is
// translated to another and one to that other address itself would be the same connection, and connection tracking drops the
// second.
func identifier(token string) int {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(token)) // never an error
	return int(sum.Sum32()&0xffff ^ sum.Sum32()>>16)
}

// ipAddr is a in the form that package net's raw sockets take.
func ipAddr(a netip.Addr) *net.IPAddr {
	return &net.IPAddr{IP: a.AsSlice(), Zone: a.Zone()}
}
