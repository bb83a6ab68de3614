package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// TestVerdicts: each target is met and missed by results on either side of it.
func TestVerdicts(t *testing.T) {
	good := results{
		Rows: &rowResults{
			Paced: measured{Changes: 1}, Burst: measured{Changes: 1},
			Sizes: []size{{10, 2, 1000}, {10, 1000, 1010}},
		},
		Packets: &packetResults{
			Asked: []asked{
				{Kept: true, Virtual: pace{PerSecond: 99}, Direct: pace{PerSecond: 100}}, {Virtual: pace{PerSecond: 80}, Direct: pace{PerSecond: 100}},
			},
			Rolling: []rolling{{Answers: 10}, {Answers: 10, Lossy: true, Errors: map[string]int{"lost": 1}}},
		},
	}
	bad := results{
		Rows: &rowResults{
			Paced: measured{Changes: 1}, Burst: measured{Changes: 1},
			Sizes: []size{{10, 2, 1000}, {10, 1000, 1030}},
		},
		Packets: &packetResults{
			Asked: []asked{
				{Kept: true, Virtual: pace{PerSecond: 85}, Direct: pace{PerSecond: 100}}, {Virtual: pace{PerSecond: 60}, Direct: pace{PerSecond: 100}},
			},
			Rolling: []rolling{{Answers: 10, Errors: map[string]int{"refused": 1}}},
		},
	}
	for _, test := range []struct {
		results     results
		met, missed int
	}{{good, 4, 0}, {bad, 0, 4}} {
		var out bytes.Buffer
		if err := test.results.Print(&out); err != nil {
			t.Fatal(err)
		}
		if met, missed := strings.Count(out.String(), " met "), strings.Count(out.String(), "MISSED"); met != test.met || missed != test.missed {
			t.Errorf("%d met and %d missed, want %d and %d:\n%s", met, missed, test.met, test.missed, out.String())
		}
	}
}

// TestLives: how long pods were asked after they had been told to end, and what had happened to each at a moment.
func TestLives(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	all := []life{
		{name: "old", uid: "1", ready: at(0), listed: at(100), told: at(1000), unlisted: at(1200), stopped: at(6000)},
		{name: "older", uid: "2", ready: at(0), told: at(900)},
		{name: "never asked", uid: "3", ready: at(0), told: at(500)},
		{name: "new", uid: "4", ready: at(1500)},
		{name: "long gone", uid: "5", told: at(-9000), gone: at(-4000)},
	}
	way := rolling{
		What: "asked", spans: map[string]wire.Span{
			"1": {First: at(200), Last: at(1250)}, "2": {First: at(200), Last: at(800)}, "4": {First: at(1600), Last: at(7000)},
		},
	}
	if diff := cmp.Diff(
		[]ended{{What: "was asked for, asked", Pods: 2, Max: 250}, {What: "was in the Service's slices for", Pods: 1, P50: 200, Max: 200}},
		[]ended{endedOf(way, all), unlisted(all)}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := "old: ready for 1.200 s, listed for 1.100 s, told to end for 0.200 s, not listed for 0.000 s; " +
		"older: ready for 1.200 s, told to end for 0.300 s; never asked: ready for 1.200 s, told to end for 0.700 s"
	if got := standing(all, at(1200)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
