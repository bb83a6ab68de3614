package agent

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// An alert or a panel without any sample looks like one whose metric nobody exports: what can begin at 0 does.
func TestMetricsBeginAtZero(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	if _, err := newMetrics(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, f := range families {
		have[f.GetName()] = len(f.GetMetric()) > 0
	}
	for _, name := range []string{
		"atoll_agent_add_phase_seconds", "atoll_agent_add_seconds", "atoll_agent_crowded_pods", "atoll_agent_dropped_packets_total",
		"atoll_agent_nameless_total", "atoll_agent_porthole_seconds", "atoll_agent_requests_total",
		"atoll_agent_swept_total", "atoll_agent_unbounded_interfaces",
	} {
		if !have[name] {
			t.Errorf("%s has no sample before the first event", name)
		}
	}
}
