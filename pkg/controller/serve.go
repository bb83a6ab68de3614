package controller

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/process/daemon"
)

// ServeMetrics serves /metrics, and /healthz as healthy says, at address until ctx ends.
func ServeMetrics(ctx context.Context, address string, registry *prometheus.Registry, healthy func() error) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	mux := daemon.NewMux(registry, func(context.Context) error { return healthy() })
	return daemon.Serve(ctx, &http.Server{Handler: mux, ReadHeaderTimeout: daemon.HeaderTime}, listener, 0)
}
