//go:build integration

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/wait"
)

// held is a connection that stays open, with both its ends.
type held struct {
	consumer, provider, network string
	family                      int
	// ask sends from the client, and answer to it; the other end reads.
	ask, answer func([]byte) error
	asked       func([]byte) (int, error)
	answered    func([]byte) (int, error)
	patience    func(time.Time) error
}

func (h held) String() string {
	return fmt.Sprintf("%s to %s by %s, family %d", h.consumer, h.provider, h.network, h.family)
}

// hold opens a connection from the pod of a consumer to that of a provider.
func (p *peers) hold(network, consumer, provider string, family int) (h held) {
	p.tb.Helper()
	h = held{consumer: consumer, provider: provider, network: network, family: family}
	must(p.tb, p.open(network, &h))
	for _, way := range []bool{true, false} {
		if err := h.carries(way); err != nil {
			p.tb.Fatalf("%s: %v; this test shows nothing", h, err)
		}
	}
	return h
}

func (p *peers) open(network string, h *held) error {
	from, to := p.pods[h.consumer].inside, p.pods[h.provider].inside
	connect := func(port int) (conn net.Conn, err error) {
		err = from(func() error {
			conn, err = net.DialTimeout(network, net.JoinHostPort(p.face(h.provider, h.family).String(), strconv.Itoa(port)), 3*time.Second)
			return err
		})
		if err == nil {
			p.tb.Cleanup(func() { _ = conn.Close() })
		}
		return conn, err
	}
	discard := func(_ int, err error) error { return err }
	if network == "udp" {
		var server net.PacketConn
		if err := to(func() (err error) { server, err = net.ListenPacket("udp", ":0"); return err }); err != nil {
			return err
		}
		p.tb.Cleanup(func() { _ = server.Close() })
		client, err := connect(server.LocalAddr().(*net.UDPAddr).Port)
		if err != nil {
			return err
		}
		if _, err := client.Write([]byte("first")); err != nil {
			return err
		}
		stop := wait.Limit(server, 3*time.Second)
		_, client0, err := server.ReadFrom(make([]byte, 100))
		stop()
		h.ask = func(b []byte) error { return discard(client.Write(b)) }
		h.answer = func(b []byte) error { return discard(server.WriteTo(b, client0)) }
		h.asked = func(b []byte) (int, error) { n, _, err := server.ReadFrom(b); return n, err }
		h.answered = client.Read
		h.patience = func(until time.Time) error { return errors.Join(client.SetDeadline(until), server.SetDeadline(until)) }
		return err
	}
	var listener net.Listener
	if err := to(func() (err error) { listener, err = net.Listen("tcp", ":0"); return err }); err != nil {
		return err
	}
	defer listener.Close()
	client, err := connect(listener.Addr().(*net.TCPAddr).Port)
	if err != nil {
		return err
	}
	server, err := listener.Accept()
	if err != nil {
		return err
	}
	p.tb.Cleanup(func() { _ = server.Close() })
	h.ask = func(b []byte) error { return discard(client.Write(b)) }
	h.answer = func(b []byte) error { return discard(server.Write(b)) }
	h.asked, h.answered = server.Read, client.Read
	h.patience = func(until time.Time) error { return errors.Join(client.SetDeadline(until), server.SetDeadline(until)) }
	return nil
}

// carries reports why a text does not arrive that the consumer sends, or else the provider; nil when it does.
func (h held) carries(asks bool) error {
	send, receive := h.answer, h.answered
	if asks {
		send, receive = h.ask, h.asked
	}
	if err := h.patience(time.Now().Add(500 * time.Millisecond)); err != nil {
		return err
	}
	// Each text is another: one that was held back before is sent again by TCP, as soon as it passes.
	text := fmt.Sprintf("%d;", texts.Add(1))
	if err := send([]byte(text)); err != nil {
		return err
	}
	var got []byte
	for !bytes.HasSuffix(got, []byte(text)) {
		part := make([]byte, 100)
		n, err := receive(part)
		if err != nil {
			return err
		}
		got = append(got, part[:n]...)
	}
	return nil
}

// texts counts what connections are to carry.
var texts atomic.Int64

// TestConnectionsEndWithWhatAllowsThem: what is open ends in both directions, and nothing else does: first when only the pair has
// gone, and both go on with others, then when the consumer has lost its last provider, and at last when the provider has lost its
// last consumer.
func TestConnectionsEndWithWhatAllowsThem(t *testing.T) {
	p := newPeers(t, []string{"near", "one", "two"}, []string{"far"})
	p.serve("near", "one", "two")
	p.serve("far", "one", "two")
	var all []held
	directions := map[int]bool{}
	for _, network := range []string{"tcp", "udp"} {
		for family := range 2 {
			for _, provider := range []string{"near", "far"} {
				for _, consumer := range []string{"one", "two"} {
					// One for each direction: a refusal ends both.
					for _, asks := range []bool{true, false} {
						directions[len(all)] = asks
						all = append(all, p.hold(network, consumer, provider, family))
					}
				}
			}
		}
	}
	ended := map[string]bool{}
	// look expects of all connections that they are as their pairs are.
	look := func(when string) {
		t.Helper()
		for i, h := range all {
			err := h.carries(directions[i])
			if over := ended[h.consumer+" "+h.provider]; over != (err != nil) {
				t.Errorf("%s: %s, consumer asks %t: ended %t, want %t (%v)", when, h, directions[i], err != nil, over, err)
			}
		}
	}
	// control expects those datagrams to arrive again that the rules keep back.
	control := func(consumer, provider string, doors ...string) {
		t.Helper()
		for _, door := range doors {
			p.openPorthole(door)
		}
		for i := range p.nodes {
			p.openNode(i)
		}
		for i, h := range all {
			if h.consumer != consumer || h.provider != provider || h.network != "udp" {
				continue
			}
			// The first one may bring back what was refused before.
			_ = h.carries(directions[i])
			if err := h.carries(directions[i]); err != nil {
				t.Errorf("without the rules: %s, consumer asks %t: %v; this test shows nothing", h, directions[i], err)
			}
		}
	}
	look("at first")
	p.serve("near", "two")
	ended["one near"] = true
	look("the pair on one node")
	control("one", "near")
	p.serve("far", "two")
	ended["one far"] = true
	look("the last provider of one")
	control("one", "far", "one")
	p.serve("far")
	ended["two far"] = true
	look("the last consumer of far")
	control("two", "far", "far")
	p.serve("near")
	ended["two near"] = true
	look("the last of all")
}
