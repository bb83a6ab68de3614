package apirelay

import (
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/wait"
)

// echo is a server that sends back what it gets, and how many connections it has.
func echo(t *testing.T) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return netip.MustParseAddrPort(listener.Addr().String())
}

// relayed serves a relay at a free port of this namespace's IPv6 loopback.
func relayed(t *testing.T, servers ...netip.AddrPort) (*Relays, string) {
	t.Helper()
	free, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(free.Addr().String())
	_ = free.Close()
	r := New(func() []netip.AddrPort { return servers }, slog.New(slog.DiscardHandler))
	t.Cleanup(r.Close)
	if err := r.Serve("x", "/proc/self/ns/net", []netip.AddrPort{at}); err != nil {
		t.Fatal(err)
	}
	return r, at.String()
}

func dial(t *testing.T, at string) net.Conn {
	t.Helper()
	conn, err := wait.Dial(&net.Dialer{}, "tcp", at, wait.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Cleanup(wait.Limit(conn, wait.Patience))
	return conn
}

func TestBothDirectionsAndTheEndOfEach(t *testing.T) {
	// The first server is not there.
	_, at := relayed(t, netip.MustParseAddrPort("127.0.0.1:1"), echo(t))
	for range 5 {
		conn := dial(t, at)
		if _, err := conn.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "hello" {
			t.Errorf("got %q (error %v)", got, err)
		}
	}
}

// TestAPortholeThatHasGoneIsAnError: a node's agent goes on when it is told to listen in a namespace that is not there any more.
func TestAPortholeThatHasGoneIsAnError(t *testing.T) {
	r := New(func() []netip.AddrPort { return nil }, slog.New(slog.DiscardHandler))
	t.Cleanup(r.Close)
	if err := r.Serve("x", filepath.Join(t.TempDir(), "gone"), []netip.AddrPort{netip.MustParseAddrPort("[::1]:6443")}); err == nil {
		t.Error("no error")
	}
}

// One pod has so many connections and no more; when one ends, another may begin.
func TestOnePodHasItsShare(t *testing.T) {
	_, at := relayed(t, echo(t))
	say := func(conn net.Conn) bool {
		if _, err := conn.Write([]byte("x")); err != nil {
			return false
		}
		_, err := io.ReadFull(conn, make([]byte, 1))
		return err == nil
	}
	var open []net.Conn
	for range maxOfOne {
		open = append(open, dial(t, at))
	}
	var parts sync.WaitGroup
	for i, conn := range open {
		parts.Go(func() {
			if !say(conn) {
				t.Errorf("connection %d is not led on", i)
			}
		})
	}
	parts.Wait()
	if say(dial(t, at)) {
		t.Error("it has more than its share")
	}
	_ = open[0].Close()
	wait.Until(t, wait.Patience, "another connection may begin", func() bool { return say(dial(t, at)) })
}

func TestStopEndsConnections(t *testing.T) {
	r, at := relayed(t, echo(t))
	conn := dial(t, at)
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.Stop("x")
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection goes on")
	}
	if late, err := net.DialTimeout("tcp", at, time.Second); err == nil {
		_ = late.Close()
		t.Error("somebody listens still")
	}
}
