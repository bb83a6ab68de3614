package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// HeaderTime is how long a client may take to say what it asks for.
const HeaderTime = 5 * time.Second

// Serve serves until ctx ends, over TLS where the server is set up for it. The contexts of requests end with ctx; those that take longer
// than farewell to clear up are cut off.
func Serve(ctx context.Context, server *http.Server, listener net.Listener, farewell time.Duration) error {
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		if server.Shutdown(late) != nil {
			_ = server.Close()
		}
	})
	defer stop()
	serve := server.Serve
	if server.TLSConfig != nil {
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	<-stopped
	return nil
}

// NewRegistry makes a registry of metrics with those of the process itself and of the memory that is in use, without garbage.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector(
		collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)})))
	return registry
}

// NewMux answers /metrics, and /healthz by a Check.
func NewMux(metrics prometheus.Gatherer, healthy func(context.Context) error) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", Check(healthy))
	return mux
}

// Check answers that all is well, or with the error that says what is not.
func Check(well func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := well(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}
