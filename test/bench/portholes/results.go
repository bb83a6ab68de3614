package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/test/bench/harness"
)

// results of a run. Times are in milliseconds unless they say otherwise. Others is how many processors were used by
// programs that do not take part, and by other machines.
type results struct {
	Networks   int `json:"networks"`
	Pods       int `json:"pods"`
	Portholes  int `json:"portholes"`
	Processors int `json:"processors"`
	// Measured are the parts that the run measured: of others there is nothing.
	Measured []string `json:"measured"`

	Flows       flows   `json:"flows"`
	FlowsPerPod float64 `json:"flowsPerPod"`
	Names       names   `json:"dns"`
	Memory      memory  `json:"memory"`

	Arrival arrival `json:"arrival"`
	// OnHost and InDefault are as many pods with their node's network, and in the default Network.
	OnHost    arrival `json:"onHost"`
	InDefault arrival `json:"inDefault"`
	// TurnsArrival is some of them, as many at a time as there are nodes.
	TurnsArrival arrival `json:"turnsArrival"`
	// Burst is while all pods came at once, Turns while one came after the other to each node, Alone one after the other to one.
	Burst part `json:"burst"`
	Turns part `json:"turns"`
	Alone part `json:"alone"`

	// TurnsRemoval is of those of TurnsArrival, as they were made, Removal of all at once.
	TurnsRemoval removal `json:"turnsRemoval"`
	Removal      removal `json:"removal"`
}

// part is what the agents did in one part of the run.
type part struct {
	agents
	Others float64 `json:"others"`
}

// agents are what the agents counted themselves.
type agents struct {
	// Made is the creation of portholes, Joined that of a pod's place in one that is there.
	Made distribution `json:"made"`
	// Steps are those of making one.
	Steps map[string]distribution `json:"steps"`
	// Waited is what those that were made had waited before, for others to be made.
	Waited distribution `json:"waited"`
	Joined distribution `json:"joined"`
	// ADD and its Phases are the agent's part of a pod's start.
	ADD    distribution            `json:"add"`
	Phases map[string]distribution `json:"phases"`
	// Failed are the ADDs that ended with an error, which the runtime answers with a new sandbox.
	Failed int `json:"failed"`
}

func readAgents(before, after harness.Samples) agents {
	out := agents{
		Made:   between(before, after, metricPorthole, `change="made"`),
		Waited: between(before, after, metricWait, ""),
		Joined: between(before, after, metricPorthole, `change="pods"`),
		ADD:    between(before, after, metricADD, ""),
		Phases: map[string]distribution{},
		Steps:  map[string]distribution{},
	}
	for series, n := range after {
		if strings.HasPrefix(series, metricRequests+`{`) && strings.Contains(series, `command="ADD"`) && !strings.Contains(series, `code="0"`) {
			out.Failed += int(n - before[series])
		}
	}
	for _, step := range steps {
		out.Steps[step] = between(before, after, metricStep, fmt.Sprintf("step=%q", step))
	}
	for _, phase := range phases {
		out.Phases[phase] = between(before, after, metricPhase, fmt.Sprintf("phase=%q", phase))
	}
	return out
}

// phases of an ADD, in their order. (docs/design/node.md.)
var phases = []string{"attachment", "porthole", "link", "port", "installed", "answered"}

// steps of making a porthole, in their order. (docs/design/node.md.)
var steps = []string{"namespace", "links", "addresses", "rules", "mount", "faces", "port", "names"}

// The targets.
const (
	targetMade = 60.0   // ms
	targetKiB  = 1024.0 // of each: kernel and agent
)

// same is for numbers of rows, each for one of many: they differ by no more than their computation does.
func same(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// lighter judges a memory. What is below nothing was not measured: others took or gave back more meanwhile.
func lighter(kib float64) string {
	if kib < 0 {
		return "unknown"
	}
	return harness.Verdict(kib < targetKiB)
}

// Print writes a table for people, of what was measured.
func (r results) Print(to io.Writer) error {
	t := harness.New(to, r.Processors,
		fmt.Sprintf("%d pods in %d Networks of the same addresses: %d portholes on 3 nodes", r.Pods, r.Networks, r.Portholes))
	r.printTargets(t)
	t.Gap()
	r.printRest(t)
	return t.Flush()
}

func (r results) has(part string) bool { return slices.Contains(r.Measured, part) }

// printTargets writes what has a target.
func (r results) printTargets(t harness.Table) {
	for _, p := range []struct {
		name, when string
		part
	}{{partAlone, "pods one after the other", r.Alone}, {partTurns, "3 pods at a time", r.Turns}, {partBurst, "all pods at once", r.Burst}} {
		if r.has(p.name) {
			t.Judged("porthole made, "+p.when, fmt.Sprintf("p50 < %.0f ms", targetMade), times(p.Made), p.Made.Count > 0 && p.Made.P50 < targetMade,
				p.Others)
		}
	}
	if r.has(partMemory) {
		limit, m := fmt.Sprintf("< %.0f KiB", targetKiB), r.Memory
		t.Row("kernel memory of a porthole", limit, fmt.Sprintf("%.0f KiB", m.Kernel), lighter(m.Kernel), m.Others)
		t.Row("agent's memory for it, live", limit, fmt.Sprintf("%.0f KiB, %.1f goroutines", m.Heap, m.Goroutines), lighter(m.Heap), m.Others)
		t.Row("agent's memory for it, resident", limit, fmt.Sprintf("%.0f KiB", m.RSS), lighter(m.RSS), m.Others)
	}
	if r.has(partFlows) {
		with, without := r.Flows.With, r.Flows.Without
		t.Judged("logical flows per pod, by its face", "0",
			fmt.Sprintf("%+.2f: %.2f with faces, %.2f without", with.perPod()-without.perPod(), with.perPod(), without.perPod()),
			same(with.perPod(), without.perPod()), harness.Nobody)
		t.Judged("logical flows per Network, by faces", "0",
			fmt.Sprintf("%+.2f: %.2f with faces, %.2f without", with.PerNetwork-without.PerNetwork, with.PerNetwork, without.PerNetwork),
			same(with.PerNetwork, without.PerNetwork), harness.Nobody)
	}
	for _, p := range []struct {
		name, when string
		removal
	}{{partTurns, ", 3 at a time", r.TurnsRemoval}, {partRemoval, ", all at once", r.Removal}} {
		if r.has(p.name) {
			t.Judged("left after removal"+p.when, "nothing", left(p.Left), len(p.Left) == 0, harness.Nobody)
		}
	}
}

// printRest writes what has none.
func (r results) printRest(t harness.Table) {
	for _, p := range []struct {
		name, what string
		arrival
	}{
		{partTurns, "pods Ready, 3 at a time", r.TurnsArrival},
		{partBurst, "pods Ready, all at once", r.Arrival},
		{partDefault, "pods of the default Network Ready", r.InDefault},
		{partHost, "pods with their node's network Ready", r.OnHost},
	} {
		if r.has(p.name) {
			took := fmt.Sprintf("%.1f s; each p50 %.1f s, p99 %.1f s", p.Seconds, p.P50, p.P99)
			if p.Late > 0 {
				took += fmt.Sprintf("; %d others not in time", p.Late)
			}
			t.Figure(fmt.Sprintf("%d %s", p.Pods, p.what), took, p.Others)
			t.Figure("  processor time", p.busiest(), harness.Nobody)
		}
	}
	for _, p := range []struct {
		name, when string
		part
	}{{partAlone, ", one after the other", r.Alone}, {partTurns, ", 3 at a time", r.Turns}, {partBurst, ", all at once", r.Burst}} {
		if !r.has(p.name) {
			continue
		}
		t.Figure("a porthole's steps"+p.when, "", p.Others)
		for _, step := range steps {
			t.Figure("  "+step, times(p.Steps[step]), harness.Nobody)
		}
		t.Figure("porthole had waited for others"+p.when, times(p.Waited), p.Others)
		t.Figure("pod added to a porthole"+p.when, times(p.Joined), p.Others)
		t.Figure("ADD"+p.when, fmt.Sprintf("%s; %d failed", times(p.ADD), p.Failed), p.Others)
		for _, phase := range phases {
			t.Figure("  "+phase, times(p.Phases[phase]), harness.Nobody)
		}
	}
	if r.has(partMemory) {
		m := r.Memory
		t.Figure("OVS and ovn-controller for a porthole", fmt.Sprintf("%.0f KiB resident", m.Switch), m.Others)
		t.Figure("one more pod", fmt.Sprintf("%.0f KiB of the kernel, container included; %.0f KiB of the agent", m.PodKernel, m.PodHeap),
			m.Others)
	}
	if r.has(partNames) {
		t.Figure("DNS server of a Network", fmt.Sprintf("%.0f KiB, %.1f goroutines (in the agent's, above)", r.Names.Heap, r.Names.Goroutines),
			harness.Nobody)
	}
	if f := r.Flows; r.has(partFlows) {
		t.Figure("logical flows, 3 nodes' faces",
			fmt.Sprintf("%d of %d, for all nodes' routes and all Networks' ways together", f.With.Empty-f.Without.Empty, f.With.Empty),
			harness.Nobody)
		t.Figure("logical flows per pod, to dial its face in its Network", fmt.Sprintf("%.2f", f.With.dialled()), harness.Nobody)
	}
	if r.has(partBurst) {
		t.Figure("logical flows per pod in the sandbox", fmt.Sprintf("%.2f", r.FlowsPerPod), harness.Nobody)
	}
	for _, p := range []struct {
		name, when string
		removal
	}{{partTurns, ", 3 at a time", r.TurnsRemoval}, {partRemoval, ", all at once", r.Removal}} {
		if r.has(p.name) {
			t.Figure("removal"+p.when, fmt.Sprintf("pods %.1f s, portholes %.1f s, all %.1f s", p.Pods, p.Portholes, p.All), p.Others)
		}
	}
}

func times(d distribution) string {
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, mean %.1f ms (%d)", d.P50, d.P99, d.Mean, d.Count)
}

// busiest are the programs that used most.
func (a arrival) busiest() string {
	const most = 10
	sum := 0.0
	for _, used := range a.Programs {
		sum += used
	}
	names := slices.SortedFunc(maps.Keys(a.Programs), func(x, y string) int { return cmp.Compare(a.Programs[y], a.Programs[x]) })
	out := []string{fmt.Sprintf("%.0f s", sum)}
	for _, name := range names[:min(most, len(names))] {
		out = append(out, fmt.Sprintf("%s %.1f", name, a.Programs[name]))
	}
	return strings.Join(out, "; ")
}

// left is the first of what is left.
func left(things []string) string {
	if len(things) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d: %s", len(things), things[0])
}
