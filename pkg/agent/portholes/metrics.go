package portholes

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// The steps of making a porthole that are not the keeper's.
const (
	// stepPort is the transaction with Open vSwitch.
	stepPort porthole.Step = "port"
	// stepNames has the DNS program open its sockets.
	stepNames porthole.Step = "names"
)

// Swept is what sweeps call a porthole that they remove.
const Swept = "porthole"

// What was done to a porthole.
const (
	// made: there was none.
	made = "made"
	// changedPods: a pod came to it or left it.
	changedPods = "pods"
	// removed: its last pod has gone.
	removed = "removed"
)

// Metrics are of the portholes of a node.
type Metrics struct {
	changes, steps *prometheus.HistogramVec
	waits          prometheus.Histogram
}

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		changes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "atoll_agent_porthole_seconds",
			Help:    "How long it took to make a porthole, to change its pods, and to remove it, with its port on the bridge.",
			Buckets: prometheus.ExponentialBuckets(0.002, 1.5, 24),
		}, []string{"change"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "atoll_agent_porthole_step_seconds",
			Help:    "How long each step took of portholes that were made.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"step"}),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "atoll_agent_porthole_wait_seconds",
			Help:    "How long portholes that were made had waited until those before were.",
			Buckets: prometheus.ExponentialBuckets(0.002, 1.5, 24),
		}),
	}
	for _, what := range []string{made, changedPods, removed} {
		// So that there is a sample before the first one.
		m.changes.WithLabelValues(what)
	}
	return m, errors.Join(registry.Register(m.changes), registry.Register(m.steps), registry.Register(m.waits))
}

// change records what was done to a porthole since its turn came.
func (m *Metrics) change(since time.Time, what string) {
	m.changes.WithLabelValues(what).Observe(time.Since(since).Seconds())
}

// Step records how long a step of making a porthole took.
func (m *Metrics) Step(step porthole.Step, took time.Duration) {
	m.steps.WithLabelValues(string(step)).Observe(took.Seconds())
}
