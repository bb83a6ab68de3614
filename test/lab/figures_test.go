package lab

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
		if got := Percentile(times(test.n), test.p); got != test.want {
			t.Errorf("p%d of 1 to %d ms is %v, want %v", test.p, test.n, got, test.want)
		}
	}
}
