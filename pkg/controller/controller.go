package controller

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/controller/engine"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// Config sets a controller up for one term of leadership.
type Config struct {
	Database ovsdb.Config
	Defaults decide.Defaults
	Source   engine.Source
	Sink     decide.Sink
	// Epoch names the term; no other term has the same.
	Epoch string
	// Options and MaxBatch are engine.Config's.
	Options  map[string]string
	MaxBatch int
	Log      *slog.Logger
	Metrics  *engine.Metrics
}

// Controller decides and moves. Run works until its context ends (nil), or another controller has taken over
// (engine.ErrDeposed).
type Controller struct {
	*engine.Engine
	state *decide.State
}

// New makes a controller; Run runs it.
func New(cfg Config) *Controller {
	wanted := graph.New()
	state := decide.NewState(cfg.Defaults, wanted, cfg.Sink)
	return &Controller{state: state, Engine: engine.New(engine.Config{
		Database: cfg.Database, Source: cfg.Source, Graph: wanted, Decider: state,
		Epoch: cfg.Epoch, Options: cfg.Options, MaxBatch: cfg.MaxBatch, Log: cfg.Log, Metrics: cfg.Metrics,
	})}
}

// NewMetrics makes the metrics of what is written, and registers them.
func NewMetrics(registry prometheus.Registerer) *engine.Metrics { return engine.NewMetrics(registry) }

// Capacity is what is left; false when the engine has no time to tell.
func (c *Controller) Capacity(ctx context.Context) (decide.Capacity, bool) {
	ctx, cancel := context.WithTimeout(ctx, capacityTime)
	defer cancel()
	reply := make(chan decide.Capacity, 1)
	if err := c.Do(ctx, func() { reply <- c.state.Capacity() }); err != nil {
		return decide.Capacity{}, false
	}
	return <-reply, true
}
