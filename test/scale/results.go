package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/atoll-net/atoll/test/bench/harness"
)

// results of a run. Rates are per second, times in milliseconds unless they say otherwise, memory in units of 10^6
// bytes. Others is how many processors were used by programs that do not take part, and by other machines.
type results struct {
	Pods       int `json:"pods"`
	Networks   int `json:"networks"`
	Nodes      int `json:"nodes"`
	BurstOf    int `json:"burstOf"`
	Processors int `json:"processors"`

	Sizes []size  `json:"sizes"`
	Fill  []point `json:"fill"`
	Known known   `json:"known"`
	// Came and Went are pods that were made and deleted while there were the most.
	Came    series  `json:"came"`
	Went    series  `json:"went"`
	Restart restart `json:"restart"`

	ControllerMB float64 `json:"controllerMB"`
	HeapMB       float64 `json:"heapMB"`
	Goroutines   float64 `json:"goroutines"`

	Inspection inspected `json:"inspection"`

	Census          []census `json:"census"`
	NetworksSeconds float64  `json:"networksSeconds"`
	// OfNodes is what nodes cost.
	OfNodes ofNodesCensus `json:"ofNodes"`

	Soak soakResult `json:"soak"`
}

// size is what was measured while so many pods' ports were there.
type size struct {
	Ports  int      `json:"ports"`
	Paced  series   `json:"paced"`
	Bursts []series `json:"bursts"`
}

// burst is the burst in the middle.
func (s size) burst() series {
	sorted := slices.SortedFunc(slices.Values(s.Bursts), func(a, b series) int { return cmp.Compare(a.PodsPerSecond, b.PodsPerSecond) })
	return sorted[len(sorted)/2]
}

// point is a rate while so many ports were there.
type point struct {
	Ports         int     `json:"ports"`
	PodsPerSecond float64 `json:"podsPerSecond"`
}

// series is the time from object to row of some pods.
type series struct {
	harness.Series
	// API50 and API99 are the part of it until the API server had answered.
	API50  float64 `json:"api50,omitempty"`
	API99  float64 `json:"api99,omitempty"`
	Others float64 `json:"others"`
}

func newSeries(took []time.Duration, all time.Duration, others float64) series {
	return series{Series: harness.NewSeries(took, all), Others: others}
}

// known is how fast rows came of pods that the API server held already.
type known struct {
	// APIAlone is how many pods the API server took per second while no controller ran.
	APIAlone float64 `json:"apiAlonePodsPerSecond"`
	// New pods get an annotation too; Annotated ones have it, and the controller writes rows only.
	New       arrival `json:"new"`
	Annotated arrival `json:"annotated"`
	// Raw is the rate of the OVSDB library alone, with the same rows in the same Batches.
	Raw       float64 `json:"rawRowsPerSecond"`
	RawOthers float64 `json:"rawOthers"`
	Batches   []int   `json:"batches"`
}

// arrival is how rows came into the database.
type arrival struct {
	// RowsPerSecond is the rate from the end of the first batch to the end of the last.
	RowsPerSecond float64 `json:"rowsPerSecond"`
	// Seconds is the time from the controller's start to the last row.
	Seconds float64 `json:"seconds"`
	Others  float64 `json:"others"`
}

// restart is what a start costs when the database holds what it should. Seconds.
type restart struct {
	// Transactions that changed more than who leads, by the database's file; Counted by the controller itself.
	Transactions int `json:"transactions"`
	Counted      int `json:"transactionsCounted"`
	Annotations  int `json:"annotationsWritten"`
	// AllKnown is when the controller had all objects, FirstPod when a pod was served that waited for it.
	AllKnown     float64 `json:"allKnownSeconds"`
	FirstPod     float64 `json:"firstPodSeconds"`
	ControllerMB float64 `json:"controllerMB"`
}

// census is how many rows there were with so many Networks and no pods.
type census struct {
	Networks int `json:"networks"`
	Rows     int `json:"rows"`
	// ReadySeconds is how long the Networks since the last census took until pods may attach, NorthdSeconds how long
	// northd took after that. ControllerSeconds is how long a node's ovn-controller took with the first pod of the last
	// Network.
	ReadySeconds      float64 `json:"readySeconds"`
	NorthdSeconds     float64 `json:"northdSeconds"`
	ControllerSeconds float64 `json:"ovnControllerSeconds"`
}

// ofNodesCensus is what the database holds on account of nodes.
type ofNodesCensus struct {
	// Changed rows of Networks: those that came, went or differ since there was neither pod nor node.
	Changed int `json:"changedRowsOfNetworks"`
	// Rows of the nodes' own, and in how many Networks they are.
	Rows     int `json:"rows"`
	Networks int `json:"networks"`
}

// rowsPerNetwork is how many rows each Network added, and whether it was the same all the way.
func (r results) rowsPerNetwork() (float64, bool) {
	first, last := r.Census[0], r.Census[len(r.Census)-1]
	each, linear := float64(last.Rows-first.Rows)/float64(last.Networks-first.Networks), true
	for _, c := range r.Census {
		linear = linear && c.Rows-first.Rows == int(each)*(c.Networks-first.Networks)
	}
	return each, linear
}
