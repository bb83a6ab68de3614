package main

import (
	"testing"

	"github.com/atoll-net/atoll/test/bench/harness"
)

func TestBetween(t *testing.T) {
	t.Parallel()
	before := harness.ParseSamples(`# HELP x_seconds Something.
x_seconds_bucket{change="made",le="0.01"} 5
x_seconds_bucket{change="made",le="0.02"} 5
x_seconds_bucket{change="made",le="0.04"} 5
x_seconds_bucket{change="made",le="+Inf"} 5
x_seconds_sum{change="made"} 0.1
`)
	after := harness.ParseSamples(`x_seconds_bucket{change="made",le="0.01"} 5
x_seconds_bucket{change="made",le="0.02"} 15
x_seconds_bucket{change="made",le="0.04"} 105
x_seconds_bucket{change="made",le="+Inf"} 105
x_seconds_sum{change="made"} 2.6
x_seconds_bucket{change="pods",le="0.01"} 7
x_seconds_sum{change="pods"} 0.08
x_seconds_bucket{change="pods",le="+Inf"} 8
`)
	if got, want := between(before, after,
		"x_seconds", `change="made"`), (distribution{Count: 100, Mean: 25, P50: 20 + 20*40.0/90, P99: 20 + 20*89.0/90}); !near(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// What is beyond the last limit is known to be no less.
	if got, want := between(before, after,
		"x_seconds", `change="pods"`), (distribution{Count: 8, Mean: 10, P50: 10 * 4.0 / 7, P99: 10}); !near(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := between(before, after, "y_seconds", ""); got != (distribution{}) {
		t.Errorf("got %+v of nothing", got)
	}
}

func near(a, b distribution) bool {
	const little = 1e-6
	return a.Count == b.Count && a.Mean-b.Mean < little && b.Mean-a.Mean < little && a.P50-b.P50 < little && b.P50-a.P50 < little &&
		a.P99-b.P99 < little && b.P99-a.P99 < little
}
