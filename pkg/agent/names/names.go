// Package names asks the node's DNS program to answer in portholes. Without one nobody is asked.
package names

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/dns/names/call"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// Patience is how long a pod's start waits for its Network's names. A DNS program that is being replaced answers at once, one that
// was killed within a second or two. One that stays away keeps no pod from starting: not every pod asks for names.
const Patience = 5 * time.Second

// Names are answered by the node's DNS program; nil when nobody answers.
type Names struct {
	program *call.Client
	// nameless counts pods that start before anybody answers.
	nameless prometheus.Counter
	log      *slog.Logger
}

// New asks the program behind a socket; nil without one. nameless counts the pods that start before it answers.
func New(socket string, nameless prometheus.Counter, log *slog.Logger) *Names {
	if socket == "" {
		return nil
	}
	return &Names{program: call.NewClient(socket), nameless: nameless, log: log}
}

// Await returns when the pods of a porthole are answered, or it is no use to wait longer.
func (n *Names) Await(ctx context.Context, spec porthole.Spec) {
	if n == nil || len(spec.DNS) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if err := n.program.Serve(ctx, string(porthole.IDOf(spec.UID))); err != nil {
		n.nameless.Inc()
		n.log.Warn("a pod starts before anybody answers for names in its Network", "network", spec.Network, "error", err)
	}
}

// Refresh has the program look at portholes that may have changed. It does so by itself, only later.
func (n *Names) Refresh(ctx context.Context) {
	if n == nil {
		return
	}
	if err := n.program.Look(ctx); err != nil {
		n.log.Debug("the DNS program was not told of a change", "error", err)
	}
}

// Stop ends the server of a porthole that goes: its sockets would keep the namespace until the program sees by itself.
func (n *Names) Stop(ctx context.Context, id porthole.ID) {
	if n == nil {
		return
	}
	if err := n.program.Leave(ctx, string(id)); err != nil {
		n.log.Debug("the DNS program was not told of a porthole that goes", "porthole", id, "error", err)
	}
}
