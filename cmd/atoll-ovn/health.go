package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

const (
	// healthWithin is how long a daemon has to say how it is. Kubelets wait a little longer.
	healthWithin = 10 * time.Second
	// healthAtOnce is how many are answered at a time: whoever is on the node can ask.
	healthAtOnce = 4
)

// withHealth makes a command that runs a daemon answer probes by HTTP: /ready and /live, with 200, or with 503 and the reason.
// Probes that ran a program in the container took 5 to 10 % of a processor on a control plane node. The kubelet does not show the
// reason of a failed HTTP probe, so the log has it.
func withHealth(cmd *cobra.Command, part func(args []string) string, asked func() *probes) *cobra.Command {
	address := ""
	cmd.Flags().StringVar(&address, "health-address", "", "where to answer GET /ready and /live, such as 127.0.0.1:9415; empty is nowhere")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if address == "" {
			return run(cmd, args)
		}
		listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", address)
		if err != nil {
			return fmt.Errorf("read --health-address: %w", err)
		}
		h := &health{
			part: part(args), probes: asked(), log: slog.New(slog.NewTextHandler(os.Stderr, nil)), slots: make(chan struct{}, healthAtOnce),
		}
		server := &http.Server{Handler: h.routes(), ReadHeaderTimeout: healthWithin, WriteTimeout: 2 * healthWithin, MaxHeaderBytes: 8 << 10}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(listener) }()
		err = run(cmd, args)
		closed := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, fmt.Errorf("answer probes: %w", served))
		}
		return errors.Join(err, closed)
	}
	return cmd
}

// always is the part of a command that has one alone.
func always(part string) func([]string) string { return func([]string) string { return part } }

// health answers for a part.
type health struct {
	part   string
	probes *probes
	log    *slog.Logger
	slots  chan struct{}

	mu   sync.Mutex
	said *string // why it was not ready when it was last asked, nil before
}

func (h *health) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		h.answer(w, r, func(ctx context.Context) error {
			err := h.probes.ready(ctx, h.part)
			h.tell(ctx, err)
			return err
		})
	})
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, r *http.Request) {
		h.answer(w, r, func(ctx context.Context) error { return h.probes.live(ctx, h.part) })
	})
	return mux
}

func (h *health) answer(w http.ResponseWriter, r *http.Request, check func(context.Context) error) {
	ctx, cancel := context.WithTimeout(r.Context(), healthWithin)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		http.Error(w, "asked too often", http.StatusServiceUnavailable)
		return
	}
	if err := check(ctx); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// tell logs when readiness changes, and when the reason does.
func (h *health) tell(ctx context.Context, err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	h.mu.Lock()
	same := h.said != nil && *h.said == why
	h.said = &why
	h.mu.Unlock()
	if !same {
		h.log.InfoContext(ctx, "readiness", "part", h.part, "ready", err == nil, "why", why)
	}
}
