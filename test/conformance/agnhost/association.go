package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"
)

const (
	// again is when a packet that had no answer is sent once more. (RFC 9260 begins with a second.)
	again = time.Second
	// longest is more than the packets have that we read.
	longest = 1500
)

// client sets up an association.
type client struct {
	port, to  uint16
	tag, peer uint32
	// say is the packet that waits for its answer.
	say packet
}

func newClient(port, to uint16, tag uint32) *client {
	return &client{port: port, to: to, tag: tag, say: packet{from: port, to: to, chunk: chunkInit, initiate: tag}}
}

// hear takes in a packet and tells whether say is another one now, or all is done.
func (c *client) hear(p packet) (changed, done bool, err error) {
	if p.from != c.to || p.to != c.port || p.tag != c.tag {
		return false, false, nil // of somebody else, or our own
	}
	switch {
	case p.chunk == chunkInitAck && c.say.chunk == chunkInit:
		c.peer = p.initiate
		c.say = packet{from: c.port, to: c.to, tag: c.peer, chunk: chunkCookieEcho, cookie: slices.Clone(p.cookie)}
		return true, false, nil
	case p.chunk == chunkCookieAck && c.say.chunk == chunkCookieEcho:
		c.say = packet{from: c.port, to: c.to, tag: c.peer, chunk: chunkAbort}
		return true, true, nil
	case p.chunk == chunkAbort:
		return false, false, errors.New("association aborted")
	}
	return false, false, nil
}

// answer is what a server says to a packet. It remembers nothing: the client's tag is in the cookie.
func answer(p packet, ports []uint16, tag uint32) (packet, bool) {
	out := packet{from: p.to, to: p.from}
	switch {
	case !slices.Contains(ports, p.to):
		return packet{}, false
	case p.chunk == chunkInit && p.tag == 0:
		out.chunk, out.tag, out.initiate = chunkInitAck, p.initiate, tag
		out.cookie = binary.BigEndian.AppendUint32(nil, p.initiate)
		return out, true
	case p.chunk == chunkCookieEcho && p.tag == tag && len(p.cookie) == 4:
		out.chunk, out.tag = chunkCookieAck, binary.BigEndian.Uint32(p.cookie)
		return out, true
	}
	return packet{}, false
}

// listen opens a raw socket for SCTP of an IP family.
func listen(family string) (*net.IPConn, error) {
	conn, err := net.ListenIP(family+":132", nil)
	if err != nil {
		return nil, fmt.Errorf("open raw socket: %w", err)
	}
	return conn, nil
}

// associate sets up an association and aborts it.
func associate(ctx context.Context, to netip.AddrPort) error {
	family := "ip4"
	if to.Addr().Is6() {
		family = "ip6"
	}
	conn, err := listen(family)
	if err != nil {
		return err
	}
	defer conn.Close()
	const firstPort, ports = 32768, 28232
	c := newClient(firstPort+uint16(rand.IntN(ports)), to.Port(), rand.Uint32()|1)
	send := func() error {
		_, err := conn.WriteToIP(c.say.bytes(), &net.IPAddr{IP: to.Addr().AsSlice(), Zone: to.Addr().Zone()})
		return err
	}
	buffer := make([]byte, longest)
	for ctx.Err() == nil {
		if err := send(); err != nil {
			return err
		}
		end := time.Now().Add(again)
		if limit, ok := ctx.Deadline(); ok && limit.Before(end) {
			end = limit
		}
		if err := conn.SetReadDeadline(end); err != nil {
			return err
		}
		for changed := false; !changed; {
			n, _, err := conn.ReadFromIP(buffer)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return err
			}
			p, err := parsePacket(buffer[:n])
			if err != nil {
				continue
			}
			var done bool
			if changed, done, err = c.hear(p); err != nil {
				return err
			}
			if done {
				return send()
			}
		}
	}
	return ctx.Err()
}

// serve accepts associations at ports, for ever.
func serve(family string, ports []uint16) error {
	conn, err := listen(family)
	if err != nil {
		return err
	}
	defer conn.Close()
	tag, buffer := rand.Uint32()|1, make([]byte, longest)
	for {
		n, from, err := conn.ReadFromIP(buffer)
		if err != nil {
			return fmt.Errorf("read from raw socket: %w", err)
		}
		p, err := parsePacket(buffer[:n])
		if err != nil {
			continue
		}
		if out, ok := answer(p, ports, tag); ok {
			// Nobody waits for an answer that cannot be sent: the client asks again.
			_, _ = conn.WriteToIP(out.bytes(), from)
		}
	}
}
