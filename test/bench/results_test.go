package main

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	times := func(n int) []time.Duration {
		out := make([]time.Duration, n)
		for i := range out {
			out[i] = time.Duration(i+1) * time.Millisecond
		}
		return out
	}
	for _, test := range []struct {
		n, p int
		want float64
	}{{1, 50, 1}, {1, 99, 1}, {2, 50, 1}, {3, 50, 2}, {100, 50, 50}, {100, 99, 99}, {300, 99, 297}} {
		if got := percentile(times(test.n), test.p); got != test.want {
			t.Errorf("p%d of 1 to %d ms is %v, want %v", test.p, test.n, got, test.want)
		}
	}
}

func TestPatchCount(t *testing.T) {
	for line, want := range map[string]string{
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="PATCH",version="v1"} 5820`:                 "5820",
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="atoll.dev",resource="networks",scope="resource",subresource="status",verb="PATCH",version="v1"} 7`: "7",
		`apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 5820`:                  "",
	} {
		got := ""
		if m := patchCount.FindStringSubmatch(line); m != nil {
			got = m[2]
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
