package harness

import (
	"slices"
	"time"

	"github.com/atoll-net/atoll/test/lab"
)

// Series is how long something took for each of some pods. Times in milliseconds.
type Series struct {
	Pods          int     `json:"pods"`
	PodsPerSecond float64 `json:"podsPerSecond"`
	P50           float64 `json:"p50"`
	P99           float64 `json:"p99"`
}

// NewSeries sorts the times of the pods; all is how long they took together.
func NewSeries(took []time.Duration, all time.Duration) Series {
	slices.Sort(took)
	return Series{
		Pods:          len(took),
		PodsPerSecond: float64(len(took)) / all.Seconds(),
		P50:           lab.Percentile(took, 50),
		P99:           lab.Percentile(took, 99),
	}
}
