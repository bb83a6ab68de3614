package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/test/bench/harness"
)

// results are what was measured.
type results struct {
	PodsPerNetwork int       `json:"podsPerNetwork"`
	Nodes          int       `json:"nodes"`
	Processors     int       `json:"processors"`
	Sizes          []size    `json:"sizes"`
	Consumers      consumers `json:"consumers"`
	Joined         joined    `json:"joined"`
}

// size is a number of tenants, and what those took that were made on the way to it.
type size struct {
	Tenants int `json:"tenants"`
	Made    int `json:"made"`
	// ReadySeconds is until all were Ready and all pods had ports, CarriedSeconds until northd had carried that on.
	ReadySeconds   float64 `json:"readySeconds"`
	CarriedSeconds float64 `json:"carriedSeconds"`
	// What each took: rows of the northbound database, logical flows, processor time in milliseconds.
	RowsEach       float64 `json:"rowsEach"`
	FlowsEach      float64 `json:"flowsEach"`
	NorthdEach     float64 `json:"northdMillisecondsEach"`
	ControllerEach float64 `json:"controllerMillisecondsEach"`
	// Flows are all that there are then.
	Flows  int     `json:"flows"`
	Others float64 `json:"processorsOfOthers"`
}

// consumers are Networks that begin to use one, all at once and then some more one by one.
type consumers struct {
	Consumers  int     `json:"consumers"`
	Seconds    float64 `json:"seconds"`
	NorthdEach float64 `json:"northdMillisecondsEach"`
	RowsEach   float64 `json:"rowsEach"`
	FlowsEach  float64 `json:"flowsEach"`
	Others     float64 `json:"processorsOfOthers"`
	// Of those that came one by one.
	MoreSeconds []float64 `json:"moreSeconds"`
	MoreNorthd  float64   `json:"moreNorthdMilliseconds"`
	MoreFlows   float64   `json:"moreFlows"`
	MoreOthers  float64   `json:"moreProcessorsOfOthers"`
}

// joined are Networks that mode Routed joins: all to each other at once, and then one pair of others.
type joined struct {
	Networks int    `json:"networks"`
	All      joints `json:"all"`
	One      joints `json:"one"`
}

// joints are pairs of them: how long until northd has carried all, and what each took.
type joints struct {
	Seconds    float64 `json:"seconds"`
	NorthdEach float64 `json:"northdMillisecondsEach"`
	RowsEach   float64 `json:"rowsEach"`
	FlowsEach  float64 `json:"flowsEach"`
	Others     float64 `json:"processorsOfOthers"`
}

// linearWithin is by how much what a tenant takes in rows and flows may differ between sizes.
const linearWithin = 0.02

// Print writes a table for people.
func (r results) Print(to io.Writer) error {
	t := harness.New(to, r.Processors, fmt.Sprintf("tenants with %d Networks of the same addresses and %d pods in each, %d nodes", perTenant, r.PodsPerNetwork, r.Nodes))
	for _, s := range r.Sizes {
		t.Figure(fmt.Sprintf("%d tenants more, to %d", s.Made, s.Tenants),
			fmt.Sprintf("Ready, with pods, in %.1f s; carried by northd in %.1f s", s.ReadySeconds, s.CarriedSeconds), s.Others)
	}
	t.Judged("rows per tenant", "linear", r.each("%.1f", func(s size) float64 { return s.RowsEach }), r.linear(func(s size) float64 { return s.RowsEach }), harness.Nobody)
	t.Judged("logical flows per tenant", "linear", r.each("%.1f", func(s size) float64 { return s.FlowsEach }), r.linear(func(s size) float64 { return s.FlowsEach }), harness.Nobody)
	t.Figure("northd per tenant", r.each("%.0f ms", func(s size) float64 { return s.NorthdEach }), harness.Nobody)
	t.Figure("controller per tenant", r.each("%.1f ms", func(s size) float64 { return s.ControllerEach }), harness.Nobody)
	t.Gap()
	c := r.Consumers
	t.Figure(fmt.Sprintf("%d consumers of one Network", c.Consumers), fmt.Sprintf("all in %.1f s", c.Seconds), c.Others)
	t.Figure("  each", fmt.Sprintf("northd %.1f ms, %.1f rows, %.1f logical flows", c.NorthdEach, c.RowsEach, c.FlowsEach), harness.Nobody)
	sorted := slices.Sorted(slices.Values(c.MoreSeconds))
	t.Figure(fmt.Sprintf("one more, after %d (%d times)", c.Consumers, len(sorted)),
		fmt.Sprintf("northd %.1f ms, %.1f logical flows; median %.2f s, at most %.2f s", c.MoreNorthd, c.MoreFlows, sorted[len(sorted)/2], sorted[len(sorted)-1]), c.MoreOthers)
	t.Gap()
	j := r.Joined
	for _, pairs := range []struct {
		what string
		joints
	}{{fmt.Sprintf("%d Networks joined to each other", j.Networks), j.All}, {"one pair more", j.One}} {
		t.Figure(pairs.what, fmt.Sprintf("all in %.1f s", pairs.Seconds), pairs.Others)
		t.Figure("  each pair", fmt.Sprintf("northd %.1f ms, %.1f rows, %.1f logical flows", pairs.NorthdEach, pairs.RowsEach, pairs.FlowsEach), harness.Nobody)
	}
	return t.Flush()
}

// each is a figure at all sizes.
func (r results) each(format string, of func(size) float64) string {
	var texts []string
	for _, s := range r.Sizes {
		texts = append(texts, fmt.Sprintf(format, of(s)))
	}
	return strings.Join(texts, ", ")
}

// linear reports whether a figure of each tenant is the same at all sizes.
func (r results) linear(of func(size) float64) bool {
	least, most := of(r.Sizes[0]), of(r.Sizes[0])
	for _, s := range r.Sizes {
		least, most = min(least, of(s)), max(most, of(s))
	}
	return most-least <= linearWithin*most
}
