package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/dns/names/sockets"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/pkg/process/wake"
)

// lookEvery is how often portholes are looked at unasked: what the agent could not tell is found then.
const lookEvery = 5 * time.Second

// server answers on one node. Its portholes belong to one goroutine, tend.
type server struct {
	directory *dns.Directory
	node      *dns.Node
	opener    sockets.Opener
	networks  *networks
	// faces are the ranges of those.
	faces []netip.Prefix
	// unread counts the kinds of objects that have not been read for the first time; complete is closed with the last.
	unread      atomic.Int32
	complete    chan struct{}
	watchErrors *prometheus.CounterVec
	orders      chan order
	// changed is sent after each change of a Network: tend looks then.
	changed wake.Signal
	log     *slog.Logger
}

// order is something to be done to portholes, and where to say that it is.
type order struct {
	do   func(context.Context) error
	done chan<- error
}

// tend keeps the sockets in step with Networks and portholes until ctx ends.
func (s *server) tend(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-s.orders:
			o.done <- o.do(ctx)
		case <-s.changed:
			s.look(ctx)
		case <-ticker.C:
			s.look(ctx)
		}
	}
}

// order has something done by tend.
func (s *server) order(ctx context.Context, do func(context.Context) error) error {
	done := make(chan error, 1)
	select {
	case s.orders <- order{do, done}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Serve is the agent's request: it has pods answered in a porthole, and returns when they are.
func (s *server) Serve(ctx context.Context, id string) error {
	if err := s.networks.await(ctx, porthole.ID(id)); err != nil {
		return err
	}
	return s.order(ctx, func(ctx context.Context) error { return s.answer(ctx, porthole.ID(id)) })
}

// Leave is the agent's request before a porthole goes.
func (s *server) Leave(ctx context.Context, id string) error {
	return s.order(ctx, func(context.Context) error {
		s.node.Stop(id)
		return nil
	})
}

// Look is the agent's request after portholes have changed.
func (s *server) Look(ctx context.Context) error {
	return s.order(ctx, func(ctx context.Context) error {
		s.look(ctx)
		return nil
	})
}

// look opens and closes what Networks and portholes ask for.
func (s *server) look(ctx context.Context) {
	here, err := porthole.Here()
	if err != nil {
		s.log.Warn("portholes not found", "error", err)
		return
	}
	s.follow(ctx, here)
}

// follow has the pods of these portholes answered, and of no others.
func (s *server) follow(ctx context.Context, here []porthole.ID) {
	for _, id := range s.node.Serving() {
		if !slices.Contains(here, porthole.ID(id)) {
			s.node.Stop(id)
		}
	}
	for _, id := range here {
		// One whose Network is not known waits for it, or to be removed.
		err := s.answer(ctx, id)
		if err != nil && !errors.Is(err, errNoNetwork) {
			s.log.Warn("names are not served", "error", err)
		}
		if errors.Is(err, sockets.ErrAway) {
			return // Each other one would fail likewise, and say so.
		}
	}
}

// errNoNetwork: nobody knows what a porthole's pods may ask.
var errNoNetwork = errors.New("its Network has not been read from the API server")

// answer has pods answered in a porthole, or not, as its loopback interface says.
func (s *server) answer(ctx context.Context, id porthole.ID) error {
	network := s.networks.of(id)
	if network == nil {
		s.node.Stop(string(id))
		return fmt.Errorf("serve names in porthole %s: %w", id, errNoNetwork)
	}
	addresses, err := s.opener.NameAddresses(ctx, id)
	if err != nil {
		return fmt.Errorf("serve names of Network %s: %w", network.Name, err)
	}
	if len(addresses) == 0 {
		s.node.Stop(string(id))
		return nil
	}
	return s.node.Serve(ctx, string(id), network, sockets.PlaceOf(id, addresses))
}
