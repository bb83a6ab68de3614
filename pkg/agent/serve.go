package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/atoll-net/atoll/pkg/cni"
)

// farewell is how long requests may take to clear up when the agent stops.
const farewell = undoTimeout + 2*time.Second

// listen opens the plugin's socket. Only root reaches it: whoever does can name any pod of the node.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return nil, fmt.Errorf("make directory of socket: %w", err)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen for CNI requests: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect socket: %w", err), listener.Close())
	}
	return listener, nil
}

// serveCNI serves requests until ctx ends; their contexts end with it.
func (a *Agent) serveCNI(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           cni.Handler(a, a.log),
		ReadHeaderTimeout: 5 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	return serveUntil(ctx, server, listener)
}

// serveMetrics serves what people and machines ask about the agent.
func (a *Agent) serveMetrics(ctx context.Context, address string, registry *prometheus.Registry) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	// Healthy is an agent that runs: what it waits for does not come sooner by killing it.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := a.ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /verdicts", a.serveVerdicts)
	return serveUntil(ctx, &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, listener)
}

func serveUntil(ctx context.Context, server *http.Server, listener net.Listener) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		stopped <- server.Shutdown(late)
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return <-stopped
}
