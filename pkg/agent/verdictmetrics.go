package agent

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/model"
)

const (
	// maxVerdictSeries bounds what one node tells a monitoring system: tenants write policies.
	maxVerdictSeries = 2000
	// otherPolicies stands for the policies that are beyond it.
	otherPolicies = "other"
)

// verdictLabels are the labels of a series.
type verdictLabels struct{ network, policy, direction, verdict string }

// verdictCollector gives verdicts to a monitoring system, counted when it asks.
type verdictCollector struct {
	verdicts *verdicts
	packets  *prometheus.Desc
	failures prometheus.Counter
}

func newVerdictCollector(v *verdicts) *verdictCollector {
	return &verdictCollector{
		verdicts: v,
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
func (c *verdictCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.packets
	c.failures.Describe(to)
}

// Collect implements prometheus.Collector.
func (c *verdictCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	counts, err := c.verdicts.ask(ctx, false)
	if err != nil {
		c.failures.Inc()
	}
	for labels, packets := range seriesOf(counts, maxVerdictSeries) {
		to <- prometheus.MustNewConstMetric(c.packets, prometheus.CounterValue, float64(packets), labels.network, labels.policy, labels.direction, labels.verdict)
	}
	c.failures.Collect(to)
}

// seriesOf adds the rules of each policy up. What is beyond the limit is the network's other policies', and beyond that
// nobody's in particular.
func seriesOf(counts []model.VerdictCount, limit int) map[verdictLabels]uint64 {
	out := map[verdictLabels]uint64{}
	for _, v := range counts {
		labels := verdictLabels{v.Network, v.Policy, v.Direction, v.Verdict}
		if _, has := out[labels]; !has && len(out) >= limit {
			labels.network, labels.policy = otherPolicies, otherPolicies
		}
		out[labels] += v.Packets
	}
	return out
}

// serveVerdicts answers who asks what policies decided, rule by rule.
func (a *Agent) serveVerdicts(w http.ResponseWriter, r *http.Request) {
	counts, err := a.verdicts.ask(r.Context(), true)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(model.NodeVerdicts{Node: a.node, Verdicts: counts}); err != nil {
		a.log.Warn("answer not written", "error", err)
	}
}
