package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestVerdicts: each target is met and missed by results on either side of it.
func TestVerdicts(t *testing.T) {
	good := results{
		Rows: &rowResults{
			Paced: measured{Changes: 1}, Burst: measured{Changes: 1},
			Sizes: []size{{10, 2, 1000}, {10, 1000, 1010}},
		},
		Packets: &packetResults{
			Asked:   []asked{{Kept: true, Virtual: pace{PerSecond: 99}, Direct: pace{PerSecond: 100}}, {Virtual: pace{PerSecond: 80}, Direct: pace{PerSecond: 100}}},
			Rolling: []rolling{{Answers: 10}, {Answers: 10, Lossy: true, Errors: map[string]int{"lost": 1}}},
		},
	}
	bad := results{
		Rows: &rowResults{
			Paced: measured{Changes: 1}, Burst: measured{Changes: 1},
			Sizes: []size{{10, 2, 1000}, {10, 1000, 1030}},
		},
		Packets: &packetResults{
			Asked:   []asked{{Kept: true, Virtual: pace{PerSecond: 85}, Direct: pace{PerSecond: 100}}, {Virtual: pace{PerSecond: 60}, Direct: pace{PerSecond: 100}}},
			Rolling: []rolling{{Answers: 10, Errors: map[string]int{"refused": 1}}},
		},
	}
	for _, test := range []struct {
		of          results
		met, missed int
	}{{good, 4, 0}, {bad, 0, 4}} {
		var out bytes.Buffer
		if err := test.of.print(&out); err != nil {
			t.Fatal(err)
		}
		if met, missed := strings.Count(out.String(), " met "), strings.Count(out.String(), "MISSED"); met != test.met || missed != test.missed {
			t.Errorf("%d met and %d missed, want %d and %d:\n%s", met, missed, test.met, test.missed, out.String())
		}
	}
}
