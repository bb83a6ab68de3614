package call

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
)

// DefaultSocket is where the agent finds the DNS program of its node: in a directory of its own, since that program has nothing
// to do with the agent's sockets beside it.
const DefaultSocket = "/run/atoll/dns/dns.sock"

// Program is what answers in portholes.
type Program interface {
	// Serve has pods answered in a porthole, and returns when they are.
	Serve(ctx context.Context, porthole string) error
	// Leave lets go of a porthole.
	Leave(ctx context.Context, porthole string) error
	// Look brings all portholes up to date.
	Look(ctx context.Context) error
}

// Handler hands requests to a program.
func Handler(to Program) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(*http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := do(r); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
	handle("PUT /portholes/{id}", func(r *http.Request) error { return to.Serve(r.Context(), r.PathValue("id")) })
	handle("DELETE /portholes/{id}", func(r *http.Request) error { return to.Leave(r.Context(), r.PathValue("id")) })
	handle("POST /look", func(r *http.Request) error { return to.Look(r.Context()) })
	handle("GET /readyz", func(*http.Request) error { return nil })
	return mux
}

// Listen takes the socket over from whoever had it before. It stays when we go: by then it may be a successor's.
func Listen(ctx context.Context, socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return nil, fmt.Errorf("make directory of socket: %w", err)
	}
	// Made under another name, and moved: there is always one or the other.
	fresh := fmt.Sprintf("%s.%d", socket, os.Getpid())
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", fresh)
	if err != nil {
		return nil, fmt.Errorf("listen for the agent: %w", err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	err = os.Chmod(fresh, 0o600)
	if err == nil {
		err = os.Rename(fresh, socket)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("put socket in its place: %w", err), listener.Close())
	}
	return listener, nil
}
