package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

// results are what was measured.
type results struct {
	PodsPerNetwork int       `json:"podsPerNetwork"`
	Nodes          int       `json:"nodes"`
	Processors     int       `json:"processors"`
	Sizes          []size    `json:"sizes"`
	Consumers      consumers `json:"consumers"`
	Joined         joined    `json:"joined"`
	Edges          edges     `json:"edges"`
	Restless       restless  `json:"restless"`
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
	// SyncNorthd is what of MoreNorthd is for its being awaited.
	SyncNorthd float64 `json:"syncNorthdMilliseconds"`
	MoreOthers float64 `json:"moreProcessorsOfOthers"`
	// Nodes are those with a pod of a consumer, of the provider, and of a Network that has nothing to do with them.
	Nodes []held `json:"nodes"`
}

// nodeUse is what a node's ovn-controller holds: Cells are values of the southbound database, Flows those of Open vSwitch,
// Datapaths the routers and switches of OVN that these are for.
type nodeUse struct {
	lab.Memory
	Cells     int `json:"southboundCells"`
	Flows     int `json:"openFlows"`
	Datapaths int `json:"datapaths"`
}

// held is what a node with a pod of a Network holds, before and after others begin to use each other.
type held struct {
	PodOf  string  `json:"podOf"`
	Before nodeUse `json:"before"`
	After  nodeUse `json:"after"`
	// MoreMilliseconds is its ovn-controller's processor time for one more consumer, which is on another node.
	MoreMilliseconds float64 `json:"moreMilliseconds"`
}

// joined are Networks that mode Routed joins: all to each other at once, and then one pair of others.
type joined struct {
	Networks int    `json:"networks"`
	All      joints `json:"all"`
	One      joints `json:"one"`
	// Node has a pod of one of those that are joined to each other.
	Node held `json:"node"`
}

// joints are pairs of them: how long until northd has carried all, and what each took.
type joints struct {
	Seconds    float64 `json:"seconds"`
	NorthdEach float64 `json:"northdMillisecondsEach"`
	RowsEach   float64 `json:"rowsEach"`
	FlowsEach  float64 `json:"flowsEach"`
	Others     float64 `json:"processorsOfOthers"`
}

// edges are single Networks that begin to use each other among many, and end it.
type edges struct {
	Networks int    `json:"networks"`
	Kinds    []edge `json:"kinds"`
}

// edge is one way to use another Network, or the end of it, several times.
type edge struct {
	What  string `json:"what"`
	Ends  bool   `json:"ends"`
	Turns []turn `json:"turns"`
}

// turn is one of them: seconds from its object until its rows are in the northbound database, until ovn-northd has carried them
// on, and until its node has them; and the processor time of each, in milliseconds.
type turn struct {
	RowsSeconds   float64 `json:"rowsSeconds"`
	NorthdSeconds float64 `json:"northdSeconds"`
	NodeSeconds   float64 `json:"nodeSeconds"`
	Controller    float64 `json:"controllerMilliseconds"`
	Northd        float64 `json:"northdMilliseconds"`
	Node          float64 `json:"ovnControllerMilliseconds"`
	Others        float64 `json:"processorsOfOthers"`
}

// The targets for a Network that others use by face.
const (
	mostNorthd = 50.0 // milliseconds of ovn-northd's processor time for each consumer
	mostOnNode = 60.0 // units of 10^6 bytes in a consumer's node's ovn-controller
)

// linearWithin is by how much what a tenant takes in rows and flows may differ between sizes.
const linearWithin = 0.02

// Print writes a table for people.
func (r results) Print(to io.Writer) error {
	t := harness.New(to, r.Processors,
		fmt.Sprintf("tenants with %d Networks of the same addresses and %d pods in each, %d nodes", perTenant, r.PodsPerNetwork, r.Nodes))
	for _, s := range r.Sizes {
		t.Figure(fmt.Sprintf("%d tenants more, to %d", s.Made, s.Tenants),
			fmt.Sprintf("Ready, with pods, in %.1f s; carried by northd in %.1f s", s.ReadySeconds, s.CarriedSeconds), s.Others)
	}
	t.Judged("rows per tenant", "linear", r.each("%.1f", func(s size) float64 { return s.RowsEach }),
		r.linear(func(s size) float64 { return s.RowsEach }), harness.Nobody)
	t.Judged("logical flows per tenant", "linear", r.each("%.1f", func(s size) float64 { return s.FlowsEach }),
		r.linear(func(s size) float64 { return s.FlowsEach }), harness.Nobody)
	t.Figure("northd per tenant", r.each("%.0f ms", func(s size) float64 { return s.NorthdEach }), harness.Nobody)
	t.Figure("controller per tenant", r.each("%.1f ms", func(s size) float64 { return s.ControllerEach }), harness.Nobody)
	if r.Consumers.Consumers > 0 {
		r.Consumers.print(t)
	}
	if r.Joined.Networks > 0 {
		r.Joined.print(t)
	}
	r.Edges.print(t)
	r.Restless.print(t)
	return t.Flush()
}

func (c consumers) print(t harness.Table) {
	t.Gap()
	t.Figure(fmt.Sprintf("%d consumers of one Network", c.Consumers), fmt.Sprintf("all in %.1f s", c.Seconds), c.Others)
	t.Judged("  northd for each", fmt.Sprintf("under %.0f ms", mostNorthd), fmt.Sprintf("%.1f ms", c.NorthdEach), c.NorthdEach < mostNorthd,
		harness.Nobody)
	t.Figure("  each", fmt.Sprintf("%.1f rows, %.1f logical flows", c.RowsEach, c.FlowsEach), harness.Nobody)
	sorted := slices.Sorted(slices.Values(c.MoreSeconds))
	t.Figure(fmt.Sprintf("one more, after %d (%d times)", c.Consumers, len(sorted)),
		fmt.Sprintf("median %.2f s, at most %.2f s; %.1f logical flows", sorted[len(sorted)/2], sorted[len(sorted)-1], c.MoreFlows), c.MoreOthers)
	t.Judged("  northd for each", fmt.Sprintf("under %.0f ms", mostNorthd),
		fmt.Sprintf("%.1f ms, of which %.1f for being awaited", c.MoreNorthd, c.SyncNorthd), c.MoreNorthd-c.SyncNorthd < mostNorthd,
		harness.Nobody)
	t.Gap()
	for i, n := range c.Nodes {
		what, use := "ovn-controller of a node with a pod of "+n.PodOf, n.memory()
		if i == 0 {
			t.Judged(what, fmt.Sprintf("under %.0f MB", mostOnNode), use, n.After.ResidentMB < mostOnNode, harness.Nobody)
		} else {
			t.Figure(what, use, harness.Nobody)
		}
		t.Figure("  it has", n.things(), harness.Nobody)
		t.Figure("  one more consumer elsewhere", fmt.Sprintf("%.1f ms", n.MoreMilliseconds), harness.Nobody)
	}
}

func (j joined) print(t harness.Table) {
	t.Gap()
	for _, pairs := range []struct {
		what string
		joints
	}{{fmt.Sprintf("%d Networks joined to each other", j.Networks), j.All}, {"one pair more", j.One}} {
		t.Figure(pairs.what, fmt.Sprintf("all in %.1f s", pairs.Seconds), pairs.Others)
		t.Figure("  each pair", fmt.Sprintf("northd %.1f ms, %.1f rows, %.1f logical flows", pairs.NorthdEach, pairs.RowsEach, pairs.FlowsEach),
			harness.Nobody)
	}
	t.Figure("ovn-controller of a node with a pod of one", j.Node.memory(), harness.Nobody)
	t.Figure("  it has", j.Node.things(), harness.Nobody)
}

func (e edges) print(t harness.Table) {
	if len(e.Kinds) > 0 {
		t.Gap()
	}
	for _, k := range e.Kinds {
		what := "one more among %d: %s"
		if k.Ends {
			what = "one less among %d: %s"
		}
		t.Figure(fmt.Sprintf(what, e.Networks, k.What), fmt.Sprintf("rows %s, by northd %s, on its node %s",
			k.middle("%.2f s", func(o turn) float64 { return o.RowsSeconds }), k.middle("%.2f s", func(o turn) float64 { return o.NorthdSeconds }),
			k.middle("%.2f s", func(o turn) float64 { return o.NodeSeconds })), k.others())
		t.Figure(fmt.Sprintf("  processor time (median of %d)", len(k.Turns)), fmt.Sprintf("controller %s, northd %s, ovn-controller %s",
			k.middle("%.0f ms", func(o turn) float64 { return o.Controller }), k.middle("%.0f ms", func(o turn) float64 { return o.Northd }),
			k.middle("%.1f ms", func(o turn) float64 { return o.Node })), harness.Nobody)
	}
}

func (h held) memory() string {
	return fmt.Sprintf("%.1f MB, at most %.1f; %.1f before (its share of pages: %.1f, %.1f)", h.After.ResidentMB, h.After.MostMB,
		h.Before.ResidentMB, h.After.ProportionalMB, h.Before.ProportionalMB)
}

func (h held) things() string {
	return fmt.Sprintf("%d datapaths, %d flows, %d southbound values; before %d, %d, %d", h.After.Datapaths, h.After.Flows, h.After.Cells,
		h.Before.Datapaths, h.Before.Flows, h.Before.Cells)
}

// middle is the median of a figure of all turns.
func (e edge) middle(format string, of func(turn) float64) string {
	var all []float64
	for _, o := range e.Turns {
		all = append(all, of(o))
	}
	slices.Sort(all)
	return fmt.Sprintf(format, all[len(all)/2])
}

// others are the most that others used in one of the turns.
func (e edge) others() (most float64) {
	for _, o := range e.Turns {
		most = max(most, o.Others)
	}
	return most
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
