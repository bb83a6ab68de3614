package lab

import (
	"math"
	"os"
	"testing"

	"github.com/atoll-net/atoll/test/wait"
)

func TestMegabytes(t *testing.T) {
	const text = "00400000-7ffe rollup\nRss:               51200 kB\nPss:               1000 kB\nPss_Anon: 7 kB\nOdd: 7\n"
	for name, want := range map[string]float64{"Rss": 52.4288, "Pss": 1.024} {
		if got, err := megabytes(text, name); err != nil || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, error %v, want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"Odd", "Swap"} {
		if got, err := megabytes(text, name); err == nil {
			t.Errorf("%s: %v, want an error", name, got)
		}
	}
}

func TestOwnUse(t *testing.T) {
	m, err := MemoryOf(os.Getpid())
	if err != nil || m.ProportionalMB <= 0 || m.ProportionalMB > m.ResidentMB {
		t.Errorf("memory %+v, error %v", m, err)
	}
	before, err := FineCPUOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// Other programs may have the processors for a while.
	wait.Until(t, wait.Patience, "the time that it used grows", func() bool {
		after, err := FineCPUOf(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return after > before
	})
}
