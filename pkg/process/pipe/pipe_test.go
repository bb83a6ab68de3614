package pipe

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/atoll-net/atoll/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sockets are both ends of a connection over a unix socket.
func sockets(t *testing.T) (*net.UnixConn, *net.UnixConn) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pipe") // short: a unix socket has to fit below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	dialed, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{dialed, accepted} {
		t.Cleanup(func() { _ = c.Close() })
		t.Cleanup(wait.Limit(c, wait.Patience))
	}
	return dialed.(*net.UnixConn), accepted.(*net.UnixConn)
}

// joined are a client and a server with a pipe between them, and what is closed when it has ended.
func joined(t *testing.T, ctx context.Context, join joiner) (client, server *net.UnixConn, ended <-chan struct{}) {
	t.Helper()
	client, near := sockets(t)
	server, far := sockets(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		join(ctx, near, far)
	}()
	return client, server, done
}

type joiner func(ctx context.Context, a, b net.Conn)

var joins = map[string]joiner{"Join": Join, "JoinHalves": JoinHalves}

func over(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(wait.Patience):
		t.Fatal("it goes on")
	}
}

func TestBothWays(t *testing.T) {
	t.Parallel()
	for name, join := range joins {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server, ended := joined(t, t.Context(), join)
			for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
				if _, err := io.WriteString(way[0], "tide"); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, 4)
				if _, err := io.ReadFull(way[1], got); err != nil || string(got) != "tide" {
					t.Errorf("%q came, error %v", got, err)
				}
			}
			_ = client.Close()
			_ = server.Close()
			over(t, ended)
		})
	}
}

// Either way ends with ctx, and both connections with it.
func TestItEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, join := range joins {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			client, server, ended := joined(t, ctx, join)
			stop()
			over(t, ended)
			for _, c := range []net.Conn{client, server} {
				if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
					t.Errorf("a connection is still open: %v", err)
				}
			}
		})
	}
}

func TestJoinEndsWithEitherSide(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"client", "server"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			client, server, ended := joined(t, t.Context(), Join)
			other := server
			if first == "server" {
				client, other = server, client
			}
			// The other side need not end: a half is enough.
			if err := client.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			over(t, ended)
			if _, err := other.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
				t.Errorf("the other side goes on: %v", err)
			}
		})
	}
}

// The server answers after it has heard the client's end.
func TestJoinHalvesPassesEachEndOn(t *testing.T) {
	t.Parallel()
	client, server, ended := joined(t, t.Context(), JoinHalves)
	text := strings.Repeat("tide ", 50_000)
	go func() {
		said, _ := io.ReadAll(server)
		_, _ = server.Write(append(said, said...))
		_ = server.Close()
	}()
	if _, err := io.WriteString(client, text); err != nil {
		t.Fatal(err)
	}
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(client)
	if err != nil || string(got) != text+text {
		t.Errorf("%d bytes came back, want %d (error %v)", len(got), 2*len(text), err)
	}
	over(t, ended)
}

// A side that cannot be told of the other's end is not left waiting.
func TestJoinHalvesEndsWhereThereAreNoHalves(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"whole": func(c net.Conn) net.Conn { return struct{ net.Conn }{c} },
		"ahead": func(c net.Conn) net.Conn { return Ahead{struct{ net.Conn }{c}, c} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, near := sockets(t)
			_, far := sockets(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				JoinHalves(t.Context(), near, wrap(far))
			}()
			_ = client.Close()
			over(t, done)
		})
	}
}

func TestAheadReadsWhatWasReadFirst(t *testing.T) {
	t.Parallel()
	client, near := sockets(t)
	server, far := sockets(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		JoinHalves(t.Context(), Ahead{near, io.MultiReader(bytes.NewReader([]byte("low ")), near)}, far)
	}()
	if _, err := io.WriteString(client, "tide"); err != nil {
		t.Fatal(err)
	}
	_ = client.CloseWrite()
	if got, err := io.ReadAll(server); err != nil || string(got) != "low tide" {
		t.Errorf("%q came, error %v", got, err)
	}
	// The end of the other half comes through as well.
	_ = server.CloseWrite()
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want the end", err)
	}
	over(t, done)
}

// counted counts what is written to it.
type counted struct {
	net.Conn
	writes atomic.Int64
}

// Write implements io.Writer.
func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// A TLS client that does not read cannot hold up the end: nothing is written to it.
func TestTLSIsCutWithoutAWord(t *testing.T) {
	t.Parallel()
	identity := httptest.NewTLSServer(http.NotFoundHandler())
	defer identity.Close()
	client, near := sockets(t)
	below := &counted{Conn: near}
	server := tls.Server(below, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: identity.TLS.Certificates})
	greeted := make(chan error, 1)
	go func() {
		greeted <- tls.Client(client, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context())
	}()
	if err := errors.Join(server.HandshakeContext(t.Context()), <-greeted); err != nil {
		t.Fatal(err)
	}
	before := below.writes.Load()
	cut(server)
	if more := below.writes.Load() - before; more > 0 {
		t.Errorf("%d more writes", more)
	}
	if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the connection below is open: %v", err)
	}
}
