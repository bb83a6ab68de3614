package call

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder notes what it is asked.
type recorder struct {
	mu    sync.Mutex
	asked []string
	fails bool
}

func (r *recorder) note(what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, what)
	if r.fails {
		return errors.New("no such porthole")
	}
	return nil
}

func (r *recorder) Serve(_ context.Context, id string) error { return r.note("serve " + id) }
func (r *recorder) Leave(_ context.Context, id string) error { return r.note("leave " + id) }
func (r *recorder) Look(context.Context) error               { return r.note("look") }

func serve(t *testing.T, socket string, p Program) (stop func()) {
	t.Helper()
	listener, err := Listen(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: Handler(p), ReadHeaderTimeout: time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	return sync.OnceFunc(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// TestCall: what the agent asks arrives, also at a successor; whoever needs the program waits for it, and nobody else does.
func TestCall(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "run", "dns.sock")
	client := NewClient(socket)
	if err := client.Leave(t.Context(), "abc"); err == nil {
		t.Error("nobody listens, and somebody answered")
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := client.Serve(short, "abc"); err == nil {
		t.Error("nobody listens, and somebody serves")
	}
	waited := make(chan error, 1)
	go func() { waited <- client.Serve(t.Context(), "abc") }()
	first := &recorder{}
	stopFirst := serve(t, socket, first)
	defer stopFirst()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	second := &recorder{}
	defer serve(t, socket, second)()
	// The first one ends, and leaves the socket to the second.
	stopFirst()
	for what, err := range map[string]error{
		"look": client.Look(t.Context()), "leave": client.Leave(t.Context(), "abc"), "ready": client.Ready(t.Context()),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := strings.Join(first.asked, ", "); got != "serve abc" {
		t.Errorf("the first one was asked to %s", got)
	}
	if len(second.asked) != 2 {
		t.Errorf("the second one was asked to %v", second.asked)
	}
	second.fails = true
	if err := client.Look(t.Context()); err == nil || !strings.Contains(err.Error(), "no such porthole") {
		t.Errorf("a failure is reported as %v", err)
	}
}
