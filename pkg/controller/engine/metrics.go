package engine

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// What became of a transaction.
const (
	committed = "committed"
	// refused: the database does not accept the rows.
	refused = "refused"
	// deposed: another leads, which the transaction asked for.
	deposed = "deposed"
	// lost: nobody knows, since the connection ended.
	lost = "lost"
)

// Metrics are what the engine counts.
type Metrics struct {
	connected    prometheus.Gauge
	owners       prometheus.Gauge
	transactions *prometheus.CounterVec
	seconds      prometheus.Histogram
	batch        prometheus.Histogram
}

// NewMetrics makes the engine's metrics and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "atoll_nb_connected", Help: "1 while the northbound database is connected.",
		}),
		owners: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "atoll_nb_owners", Help: "Objects that want rows in the northbound database.",
		}),
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atoll_nb_transactions_total", Help: "Transactions, by what became of them: committed, refused, deposed or lost.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "atoll_nb_transaction_seconds", Help: "Time from sending a transaction to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "atoll_nb_transaction_owners", Help: "Objects whose rows one transaction writes.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
	}
	registry.MustRegister(m.connected, m.owners, m.transactions, m.seconds, m.batch)
	for _, result := range []string{committed, refused, deposed, lost} {
		// From 0, so that the first one is seen as an increase.
		m.transactions.WithLabelValues(result)
	}
	return m
}

func (m *Metrics) transaction(err error, took time.Duration) {
	var refusal *ovsdb.RefusedError
	result := lost
	switch {
	case err == nil, errors.Is(err, ovsdb.ErrMissed):
		result = committed
	case errors.Is(err, ovsdb.ErrGuard):
		result = deposed
	case errors.As(err, &refusal):
		result = refused
	}
	m.transactions.WithLabelValues(result).Inc()
	m.seconds.Observe(took.Seconds())
}
