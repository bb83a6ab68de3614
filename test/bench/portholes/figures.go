package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/sandbox/place"
)

// agentMetrics is where an agent serves its metrics, in its node's network namespace.
const agentMetrics = "127.0.0.1:9411"

// Names of the agent's metrics.
const (
	metricPorthole = "atoll_agent_porthole_seconds"
	metricStep     = "atoll_agent_porthole_step_seconds"
	metricRequests = "atoll_agent_requests_total"
	metricWait     = "atoll_agent_porthole_wait_seconds"
	metricADD      = "atoll_agent_add_seconds"
	metricPhase    = "atoll_agent_add_phase_seconds"
	metricLiveHeap = "go_gc_heap_live_bytes"
	metricStacks   = "go_memstats_stack_inuse_bytes"
	metricRSS      = "process_resident_memory_bytes"
	metricCollects = "go_gc_duration_seconds_count"
	metricRoutines = "go_goroutines"
)

// scrape reads an agent's metrics.
func (c *cluster) scrape(ctx context.Context, node string) (harness.Samples, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			err = place.InNamespace(c.Box.Namespace(node), func() (err error) {
				conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
				return err
			})
			return conn, err
		},
	}}
	out, err := harness.Scrape(ctx, &client, agentMetrics)
	if err != nil {
		return nil, fmt.Errorf("agent on %s: %w", node, err)
	}
	return out, nil
}

// figures are the sums over all agents.
func (c *cluster) figures(ctx context.Context) (harness.Samples, error) {
	sum := harness.Samples{}
	for _, node := range c.Box.Nodes() {
		one, err := c.scrape(ctx, node)
		if err != nil {
			return nil, err
		}
		for series, n := range one {
			sum[series] += n
		}
	}
	return sum, nil
}

// distribution is of what came between two readings of a histogram, in milliseconds.
type distribution struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
}

// between reads a histogram; label is as the text format has it (such as change="made"), or empty.
func between(before, after harness.Samples, name, label string) distribution {
	type bucket struct{ upTo, count float64 }
	var buckets []bucket
	sum := 0.0
	for series, n := range after {
		if labels, found := strings.CutPrefix(series, name+"_sum"); found && strings.Contains(labels, label) {
			sum += n - before[series]
		}
		rest, found := strings.CutPrefix(series, name+"_bucket{")
		if !found || label != "" && !strings.Contains(rest, label) {
			continue
		}
		_, rest, _ = strings.Cut(rest, `le="`)
		limit, _, _ := strings.Cut(rest, `"`)
		upTo, err := strconv.ParseFloat(limit, 64)
		if err != nil {
			continue
		}
		buckets = append(buckets, bucket{upTo, n - before[series]})
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return int(math.Copysign(1, a.upTo-b.upTo)) })
	if len(buckets) == 0 || buckets[len(buckets)-1].count == 0 {
		return distribution{}
	}
	all := buckets[len(buckets)-1].count
	// As Prometheus does: evenly within a bucket.
	quantile := func(q float64) float64 {
		low := bucket{}
		for _, b := range buckets {
			if b.count >= q*all {
				if math.IsInf(b.upTo, 1) {
					return low.upTo
				}
				return low.upTo + (b.upTo-low.upTo)*(q*all-low.count)/(b.count-low.count)
			}
			low = b
		}
		return low.upTo
	}
	return distribution{Count: int(all), Mean: sum / all * 1000, P50: quantile(0.5) * 1000, P99: quantile(0.99) * 1000}
}
