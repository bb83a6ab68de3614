package verdicts

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

const (
	// maxSeries bounds what one node tells a monitoring system: tenants write policies.
	maxSeries = 2000
	// otherPolicies stands for the policies that are beyond it.
	otherPolicies = "other"
)

// labels are the labels of a series.
type labels struct{ network, policy, direction, verdict string }

// collector gives verdicts to a monitoring system, counted when it asks.
type collector struct {
	counter  *Counter
	packets  *prometheus.Desc
	failures prometheus.Counter
}

// NewCollector gives what is counted to a monitoring system.
func NewCollector(c *Counter) prometheus.Collector {
	return &collector{
		counter: c,
		packets: prometheus.NewDesc("atoll_agent_policy_packets_total",
			"Packets of this node's pods that the rules of policies decided about; policy isolation: that no policy allowed.",
			[]string{"network", "policy", "direction", "verdict"}, nil),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "atoll_agent_policy_count_errors_total",
			Help: "How often packets of policies could not be counted, or only by what was known of them earlier.",
		}),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	to <- c.packets
	c.failures.Describe(to)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	counts, err := c.counter.Ask(ctx, false)
	if err != nil {
		c.failures.Inc()
	}
	for series, packets := range seriesOf(counts, maxSeries) {
		to <- prometheus.MustNewConstMetric(c.packets, prometheus.CounterValue, float64(packets), series.network, series.policy, series.direction,
			series.verdict)
	}
	c.failures.Collect(to)
}

// seriesOf adds the rules of each policy up. What is beyond the limit is the network's other policies', and beyond that
// nobody's in particular.
func seriesOf(counts []model.VerdictCount, limit int) map[labels]uint64 {
	out := map[labels]uint64{}
	for _, v := range counts {
		series := labels{v.Network, v.Policy, v.Direction, v.Verdict}
		if _, has := out[series]; !has && len(out) >= limit {
			series.network, series.policy = otherPolicies, otherPolicies
		}
		out[series] += v.Packets
	}
	return out
}

// ServeHTTP answers who asks what policies decided, rule by rule.
func (c *Counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	counts, err := c.Ask(r.Context(), true)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(model.NodeVerdicts{Node: c.config.Node, Verdicts: counts}); err != nil {
		c.config.Log.Warn("answer not written", "error", err)
	}
}
