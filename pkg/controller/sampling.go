package controller

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// The pause before sampling is tried again, which grows from the first to the second.
const firstSampling, lastSampling = time.Second, 30 * time.Second

// Sampling has OVN sample what ACLs decide, as settings say, until ctx ends. The engine knows nothing of it: what decides what
// passes is written without it, and is not written anew when it changes.
type Sampling struct {
	Database ovsdb.Config
	Epoch    string
	Log      *slog.Logger
	settings chan config.Flows
}

// NewSampling makes a Sampling; Run has it work.
func NewSampling(database ovsdb.Config, epoch string, log *slog.Logger) *Sampling {
	return &Sampling{Database: database, Epoch: epoch, Log: log, settings: make(chan config.Flows, 1)}
}

// Set gives it other settings. It does not wait. One goroutine calls it.
func (s *Sampling) Set(f config.Flows) {
	select {
	case <-s.settings:
	default:
	}
	s.settings <- f
}

// Run works until ctx ends.
func (s *Sampling) Run(ctx context.Context) {
	var now config.Flows
	select {
	case now = <-s.settings:
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		now = s.with(ctx, now)
	}
}

// with works by some settings until there are others, which it returns.
func (s *Sampling) with(ctx context.Context, now config.Flows) config.Flows {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.keep(ctx, now)
	}()
	defer func() {
		stop()
		<-done
	}()
	select {
	case <-ctx.Done():
		return now
	case next := <-s.settings:
		return next
	}
}

// keep works by settings until ctx ends, or nothing is left to do.
func (s *Sampling) keep(ctx context.Context, now config.Flows) {
	pause := firstSampling
	for {
		began := time.Now()
		err := ovsdb.Sampler{Config: s.Database, Epoch: s.Epoch, On: now.On, Networks: now.Networks}.Run(ctx)
		switch {
		case ctx.Err() != nil || err == nil:
			return
		case errors.Is(err, ovsdb.ErrNoSampling):
			if now.On {
				s.Log.Warn("flows are not sampled", "error", err)
			}
			return
		case errors.Is(err, ovsdb.ErrEpoch):
			// The engine takes the database over in a moment, or another controller has.
		default:
			s.Log.Warn("what ACLs decide is not sampled as the settings say", "error", err, "retry", pause)
		}
		if time.Since(began) > lastSampling {
			pause = firstSampling
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, lastSampling)
	}
}
