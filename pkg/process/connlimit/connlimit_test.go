package connlimit_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/atoll-net/atoll/pkg/process/connlimit"
)

// conn is a connection from an address.
type conn struct {
	net.Conn
	from   string
	closed bool
}

func (c *conn) Close() error { c.closed = true; return nil }

func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from)) }

// enter has n clients enter from a prefix of addresses; the last part of the address is counted from 1.
func enter(s *connlimit.Strangers, n int, from func(i int) string) (out []*conn, leave []func()) {
	for i := range n {
		c := &conn{from: from(i + 1)}
		out, leave = append(out, c), append(leave, s.Enter(c))
	}
	return out, leave
}

func open(conns []*conn) (n int) {
	for _, c := range conns {
		if !c.closed {
			n++
		}
	}
	return n
}

// TestTheOldestMakesPlace: a source has Each places, all have All, and whoever comes has one.
func TestTheOldestMakesPlace(t *testing.T) {
	t.Parallel()
	s := &connlimit.Strangers{Each: 4, All: 10}
	same := func(int) string { return "[2001:db8::1]:1" }
	thief, leave := enter(s, 7, same)
	if open(thief) != 4 || !thief[2].closed || thief[3].closed {
		t.Errorf("%d of one source are open", open(thief))
	}
	// What was closed leaves once more, and who leaves twice counts once.
	for _, f := range leave[:4] {
		f()
		f()
	}
	more, _ := enter(s, 1, same)
	if open(thief[4:]) != 3 || open(more) != 1 {
		t.Error("who leaves makes no place")
	}
	others, _ := enter(s, 8, func(i int) string { return fmt.Sprintf("192.0.2.%d:1", i) })
	if open(others) != 8 || open(thief[4:])+open(more) != 2 {
		t.Errorf("%d others are open, and %d of the thief's", open(others), open(thief[4:])+open(more))
	}
}

// TestWhoIsOneSource: 64 bits of IPv6 are one source, but for an address that stands by itself.
func TestWhoIsOneSource(t *testing.T) {
	t.Parallel()
	member := netip.MustParseAddr("2001:db8::a")
	for what, alone := range map[string]func(netip.Addr) bool{"alone": func(a netip.Addr) bool { return a == member }, "control": nil} {
		s := &connlimit.Strangers{Each: 4, All: 100, Alone: alone}
		northd, _ := enter(s, 1, func(int) string { return "[2001:db8::a]:1" })
		thief, _ := enter(s, 8, func(i int) string { return fmt.Sprintf("[2001:db8::bad:%d]:1", i) })
		if open(thief) != 4 {
			t.Errorf("%s: %d of one machine are open", what, open(thief))
		}
		if closed := northd[0].closed; closed != (alone == nil) {
			t.Errorf("%s: the member's connection is closed: %t", what, closed)
		}
	}
}

// listener accepts connections of a channel.
type listener struct {
	net.Listener
	conns chan net.Conn
}

func (l listener) Accept() (net.Conn, error) { return <-l.conns, nil }

// TestKnown: a known client is no stranger any more, and there are only so many.
func TestKnown(t *testing.T) {
	t.Parallel()
	from := listener{conns: make(chan net.Conn, 1)}
	l := (&connlimit.Strangers{Each: 2, All: 2}).Listen(from, 1)
	accept := func() (net.Conn, *conn, context.Context) {
		raw := &conn{from: "192.0.2.1:1"}
		from.conns <- raw
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c, raw, connlimit.Context(t.Context(), c)
	}
	known, knownRaw, prometheus := accept()
	for range 2 {
		if !connlimit.Know(prometheus) {
			t.Fatal("the first client is too many")
		}
	}
	var raws []*conn
	for range 3 {
		_, raw, _ := accept()
		raws = append(raws, raw)
	}
	if open(raws) != 2 || knownRaw.closed {
		t.Errorf("%d strangers are open", open(raws))
	}
	_, _, second := accept()
	if connlimit.Know(second) {
		t.Error("more are known than may be")
	}
	for range 2 {
		_ = known.Close()
	}
	if connlimit.Know(prometheus) {
		t.Error("a closed connection is known")
	}
	if !connlimit.Know(second) {
		t.Error("who has closed makes no place")
	}
	if !connlimit.Know(t.Context()) {
		t.Error("a request of another listener is refused")
	}
}
