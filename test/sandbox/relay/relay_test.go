package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/atoll-net/atoll/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a relay and returns its socket.
func start(t *testing.T, dial Dial) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "relay") // short: a unix socket has to fit below it
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, socket, dial) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	wait.Eventually(t, wait.Patience, "the socket", func(context.Context) error {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return socket
}

// echo is a server that says everything twice when its client has ended.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			text, _ := io.ReadAll(conn)
			_, _ = conn.Write(append(text, text...))
			conn.Close()
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return listener.Addr().String()
}

func TestBothEndsHearEachOtherToTheEnd(t *testing.T) {
	server := echo(t)
	nowhere := netip.MustParsePrefix("192.0.2.0/24")
	node := start(t, Direct)
	for name, dial := range map[string]Dial{
		"one relay":               Through(nowhere, []string{node}),
		"the first is off":        Through(nowhere, []string{filepath.Join(t.TempDir(), "off"), node}),
		"two in a row":            Through(nowhere, []string{start(t, Through(nowhere, []string{node}))}),
		"near: no relay is asked": Through(netip.MustParsePrefix("127.0.0.0/8"), nil),
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := dial(t.Context(), server)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			text := strings.Repeat("tide ", 50_000)
			sent := make(chan error, 1)
			go func() {
				_, err := io.WriteString(conn, text)
				sent <- errors.Join(err, conn.(interface{ CloseWrite() error }).CloseWrite())
			}()
			got, err := io.ReadAll(conn)
			if err := errors.Join(err, <-sent); err != nil {
				t.Fatal(err)
			}
			if string(got) != text+text {
				t.Errorf("%d bytes came back, want %d", len(got), 2*len(text))
			}
		})
	}
}

func TestFailureIsTold(t *testing.T) {
	broken := func(context.Context, string) (net.Conn, error) { return nil, errors.New("no\r\nway: \x00") }
	dial := Through(netip.Prefix{}, []string{start(t, broken)})
	if _, err := dial(t.Context(), "192.0.2.1:80"); err == nil || !strings.Contains(err.Error(), "no  way") {
		t.Errorf("error is %v, want the relay's", err)
	}
	if _, err := Through(netip.Prefix{}, nil)(t.Context(), "192.0.2.1:80"); err == nil || !strings.Contains(err.Error(), "no node is on") {
		t.Errorf("error without a relay is %v", err)
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	conn, err := net.Dial("unix", start(t, Direct))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 405 ") {
		t.Errorf("answer is %q (%v)", answer, err)
	}
}

func TestAPortIsForwarded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := echo(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Forward(ctx, listener, server, Direct) }()
	at := listener.Addr().String()

	conn, err := Direct(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "tide")
	if err := errors.Join(err, conn.(*net.TCPConn).CloseWrite()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "tidetide" {
		t.Errorf("%q came back, with %v", got, err)
	}

	// A client that says nothing does not keep it from ending.
	idle, err := Direct(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAForwardedClientIsClosedWhereNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	broken := func(context.Context, string) (net.Conn, error) { return nil, errors.New("nobody listens") }
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- Forward(ctx, listener, "192.0.2.1:80", broken) }()
	conn, err := Direct(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, err := io.ReadAll(conn); err != nil || len(got) > 0 {
		t.Errorf("%q came back, with %v", got, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
