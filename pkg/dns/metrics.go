package dns

import (
	"errors"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// What became of questions about names outside of the cluster.
const (
	// forwardAnswered: one of the node's resolvers answered.
	forwardAnswered = "answered"
	// forwardCached: the answer was known.
	forwardCached = "cached"
	// forwardFailed: none answered.
	forwardFailed = "failed"
	// forwardLimited: too many were under way.
	forwardLimited = "limited"
)

// Metrics of all servers of a node. Each Network has at most 25 series; they go with its server.
type Metrics struct {
	queries  *prometheus.CounterVec
	forwards *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// NewMetrics registers the metrics; a nil registerer leaves that away.
func NewMetrics(to prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		queries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atoll_dns_queries_total",
			Help: "DNS questions of a Network's pods on this node, by the code of the reply.",
		}, []string{"network", "rcode"}),
		forwards: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atoll_dns_forwards_total",
			Help: "DNS questions about names outside of the cluster: answered by the node's resolvers, cached, failed, " +
				"or limited (too many at once).",
		}, []string{"network", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "atoll_dns_seconds",
			Help:    "How long replies took, those of the node's resolvers included.",
			Buckets: []float64{0.0001, 0.0005, 0.002, 0.01, 0.05, 0.25, 1, 5},
		}, []string{"network"}),
	}
	if to == nil {
		return m, nil
	}
	return m, errors.Join(to.Register(m.queries), to.Register(m.forwards), to.Register(m.seconds))
}

// counters are one Network's, looked up once.
type counters struct {
	metrics  *Metrics
	network  string
	rcodes   map[int]prometheus.Counter
	others   prometheus.Counter
	forwards map[string]prometheus.Counter
	seconds  prometheus.Observer
}

func (m *Metrics) of(network string) *counters {
	c := &counters{
		metrics: m, network: network, rcodes: map[int]prometheus.Counter{}, forwards: map[string]prometheus.Counter{},
		others:  m.queries.WithLabelValues(network, "other"),
		seconds: m.seconds.WithLabelValues(network),
	}
	for _, rcode := range []int{
		dns.RcodeSuccess, dns.RcodeNameError, dns.RcodeServerFailure, dns.RcodeRefused, dns.RcodeFormatError, dns.RcodeNotImplemented,
	} {
		c.rcodes[rcode] = m.queries.WithLabelValues(network, dns.RcodeToString[rcode])
	}
	for _, result := range []string{forwardAnswered, forwardCached, forwardFailed, forwardLimited} {
		c.forwards[result] = m.forwards.WithLabelValues(network, result)
	}
	return c
}

// forget removes the Network's series.
func (c *counters) forget() {
	of := prometheus.Labels{"network": c.network}
	c.metrics.queries.DeletePartialMatch(of)
	c.metrics.forwards.DeletePartialMatch(of)
	c.metrics.seconds.DeletePartialMatch(of)
}

func (c *counters) replied(rcode int, since time.Time) {
	counter, known := c.rcodes[rcode]
	if !known {
		counter = c.others
	}
	counter.Inc()
	c.seconds.Observe(time.Since(since).Seconds())
}

func (c *counters) forwarded(result string) { c.forwards[result].Inc() }
