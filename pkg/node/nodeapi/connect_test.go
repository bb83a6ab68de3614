package nodeapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-net/atoll/pkg/process/gate"
	"github.com/atoll-net/atoll/test/wait"
)

// sockets are opened by a function.
type sockets struct {
	answers
	open func(q ConnectQuestion) (net.Conn, Gate, error)
}

func (s sockets) Connect(_ context.Context, q ConnectQuestion) (net.Conn, Gate, error) {
	return s.open(q)
}

// echo is a socket that says what it is told, and a gate that lets everything through.
func echo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "echo")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); running.Wait() })
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { _, _ = io.Copy(conn, conn); _ = conn.Close() })
		}
	})
	return path
}

type open struct{}

func (open) Join(ctx context.Context, client, server net.Conn, b gate.Bounds) (int, error) {
	return gate.Join(ctx, client, server, gate.Open, gate.Unfollowed{}, b)
}

func connectQuestion() ConnectQuestion { return ConnectQuestion{User: "jo", Socket: SocketDatabase} }

// TestConnections: what is asked for comes to the agent, both directions work at once, and who asked is in the log.
func TestConnections(t *testing.T) {
	t.Parallel()
	path := echo(t)
	var logged synced
	c := serving(t, Handler(sockets{open: func(q ConnectQuestion) (net.Conn, Gate, error) {
		if q.Socket == SocketOpenFlow && q.Bridge != "br-int" {
			return nil, nil, &RefusedError{What: "there is no bridge " + q.Bridge}
		}
		conn, err := net.Dial("unix", path)
		return conn, open{}, err
	}}, slog.New(slog.NewTextHandler(&logged, nil))))
	// Longer than any buffer: it would hang if a side were read only after the other.
	text := bytes.Repeat([]byte("x{"), 1<<20)
	conn, err := c.Connect(t.Context(), connectQuestion())
	if err != nil {
		t.Fatal(err)
	}
	defer wait.Limit(conn, wait.Patience)()
	var writing sync.WaitGroup
	writing.Go(func() { _, _ = conn.Write(text) })
	have := make([]byte, len(text))
	if _, err := io.ReadFull(conn, have); err != nil || !bytes.Equal(have, text) {
		t.Errorf("it says something else: %v", err)
	}
	writing.Wait()
	_ = conn.Close()
	wait.Until(t, wait.Patience, "an end in the log", func() bool { return strings.Contains(logged.String(), "has ended") })
	if text := logged.String(); !strings.Contains(text, `user="\"jo\"" socket=database bridge="" writes=false`) ||
		!strings.Contains(text, `why="the client has ended it"`) {
		t.Errorf("it is logged as %s", text)
	}
	q := ConnectQuestion{User: "jo", Socket: SocketOpenFlow, Bridge: "br-ex"}
	refused, ok := errors.AsType[*RefusedError](second(c.Connect(t.Context(), q)))
	if !ok || refused.Temporary || refused.What != "node n1: there is no bridge br-ex" {
		t.Errorf("a bridge that is not there: %v", refused)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := errors.AsType[*UnreachableError](second(c.Connect(gone, connectQuestion()))); !ok {
		t.Error("somebody is connected who has gone")
	}
	older := serving(t, http.NotFoundHandler())
	if _, err := older.Connect(t.Context(), connectQuestion()); err == nil || !strings.Contains(err.Error(), "older than atoll-inspect") {
		t.Errorf("an agent that does not know the question: %v", err)
	}
	odd := serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	if _, err := odd.Connect(t.Context(), connectQuestion()); err == nil || !strings.Contains(err.Error(), "hello") {
		t.Errorf("an agent that does not upgrade: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestConnectionsAreBounded in number; and what is no question opens nothing.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	path := echo(t)
	c := serving(t, Handler(sockets{open: func(ConnectQuestion) (net.Conn, Gate, error) {
		conn, err := net.Dial("unix", path)
		return conn, open{}, err
	}}, quiet()))
	var all []net.Conn
	for range maxConnections {
		conn, err := c.Connect(t.Context(), connectQuestion())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
		t.Cleanup(func() { _ = conn.Close() })
	}
	refused, ok := errors.AsType[*RefusedError](second(c.Connect(t.Context(), connectQuestion())))
	if !ok || !refused.Temporary {
		t.Errorf("one too many is answered with %v", refused)
	}
	_ = all[0].Close()
	wait.Until(t, wait.Patience, "room for another", func() bool {
		conn, err := c.Connect(t.Context(), connectQuestion())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	for _, body := range []string{
		`hello`, `{"socket":"database"}`, `{"user":"jo","socket":"ssh"}`, `{"user":"jo","socket":"openflow"}`,
		`{"user":"jo","socket":"openflow","bridge":"../db"}`,
		`{"user":"jo","socket":"openflow","bridge":".x"}`, `{"user":"jo","socket":"database","bridge":"br-int"}`,
	} {
		asked := httptest.NewServer(Handler(sockets{open: func(q ConnectQuestion) (net.Conn, Gate, error) {
			t.Errorf("%s: it is opened: %+v", body, q)
			return nil, nil, errors.New("opened")
		}}, quiet()))
		answer, err := asked.Client().Post(asked.URL+pathConnect, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		asked.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s is answered with %d", body, answer.StatusCode)
		}
	}
}

// synced is a log that may be read while it is written.
type synced struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *synced) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *synced) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
