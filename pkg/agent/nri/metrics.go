package nri

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What became of a request.
const (
	// adjusted: the container got its own addresses.
	adjusted = "adjusted"
	// untouched: nothing in the container shows a face.
	untouched = "untouched"
	// failed: the container sees its face where it need not.
	failed = "failed"
)

type metrics struct {
	containers *prometheus.CounterVec
	seconds    prometheus.Histogram
	missed     prometheus.Gauge
}

// newMetrics registers the plugin's metrics.
func newMetrics(registry prometheus.Registerer, connected func() bool) (*metrics, error) {
	m := &metrics{
		containers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atoll_agent_nri_containers_total",
			Help: "Containers that the runtime asked about: adjusted, untouched (no face shows in them), or failed (they see their face).",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "atoll_agent_nri_seconds",
			Help:    "How long the container runtime waited for an answer about a container.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 15),
		}),
		missed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "atoll_agent_nri_missed_containers",
			Help: "Containers that see their face, since they were made while the agent was away; as of the last connection.",
		}),
	}
	is := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "atoll_agent_nri_connected",
		Help: "1 while the container runtime asks about new containers.",
	}, func() float64 {
		if connected() {
			return 1
		}
		return 0
	})
	for _, c := range []prometheus.Collector{m.containers, m.seconds, m.missed, is} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	for _, result := range []string{adjusted, untouched, failed} {
		// From 0, so that the first one is seen as an increase.
		m.containers.WithLabelValues(result)
	}
	return m, nil
}

// answered records a request.
func (m *metrics) answered(result string, took time.Duration) {
	m.containers.WithLabelValues(result).Inc()
	m.seconds.Observe(took.Seconds())
}
