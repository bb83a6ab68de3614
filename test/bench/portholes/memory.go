package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

// memory is what portholes take on a node, in units of 1024 bytes each. The first pod of a Network on a node brings its
// porthole, the second one none: what the first ones take more is the portholes'. So nothing of a pod, of its container
// or its process is counted, but all that a porthole causes is, wherever it is.
type memory struct {
	Portholes int `json:"portholes"`
	// Kernel is what the kernel cannot give back: slabs, data per processor, large allocations, page tables.
	Kernel float64 `json:"kernelKiB"`
	// Heap is live objects and stacks of the agent, RSS the memory that its process has.
	Heap float64 `json:"agentHeapKiB"`
	RSS  float64 `json:"agentRSSKiB"`
	// Switch is the same of ovs-vswitchd and ovn-controller.
	Switch float64 `json:"ovsRSSKiB"`
	// Goroutines of the agent.
	Goroutines float64 `json:"agentGoroutines"`
	// Pod is what a pod takes of the kernel's memory and of the agent's heap, in a porthole that is there.
	PodKernel float64 `json:"podKernelKiB"`
	PodHeap   float64 `json:"podAgentHeapKiB"`
	Others    float64 `json:"others"`
}

// weight is what is held at a moment, in bytes.
type weight struct{ kernel, heap, rss, ovs, goroutines float64 }

// weighings is how often is measured: what else the machine does to its memory meanwhile is in some of them only.
const weighings = 5

// weigh gives a node two pods each of some Networks, some Networks after the other, and takes them away again. Each
// figure is the middle one of the weighings.
func (c *cluster) weigh(ctx context.Context, networks int) (out memory, err error) {
	if networks < weighings {
		return out, fmt.Errorf("measure memory by %d Networks: needs at least %d", networks, weighings)
	}
	meter, err := lab.StartMeter(c.Families...)
	if err != nil {
		return out, err
	}
	var all []memory
	for of := range slices.Chunk(sequence(networks), networks/weighings) {
		m, err := c.weighSome(ctx, of)
		if err != nil {
			return out, err
		}
		all = append(all, m)
	}
	if out.Others, err = meter.Others(); err != nil {
		return out, err
	}
	middle := func(of func(memory) float64) float64 {
		var values []float64
		for _, m := range all {
			values = append(values, of(m))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	out.Portholes = networks
	out.Kernel = middle(func(m memory) float64 { return m.Kernel })
	out.PodKernel = middle(func(m memory) float64 { return m.PodKernel })
	out.Heap = middle(func(m memory) float64 { return m.Heap })
	out.PodHeap = middle(func(m memory) float64 { return m.PodHeap })
	out.RSS = middle(func(m memory) float64 { return m.RSS })
	out.Switch = middle(func(m memory) float64 { return m.Switch })
	out.Goroutines = middle(func(m memory) float64 { return m.Goroutines })
	if err := c.deletePods(ctx, atOnce); err != nil {
		return out, err
	}
	return out, c.noPortholes(ctx)
}

// sequence is 0 to n-1.
func sequence(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// weighSome gives a node two pods of each of these Networks, which stay.
func (c *cluster) weighSome(ctx context.Context, networks []int) (out memory, err error) {
	node := c.Box.Nodes()[0]
	var at [3]weight
	if at[0], err = c.weighNode(ctx, node); err != nil {
		return out, err
	}
	for round := range 2 {
		var pods []pod
		for _, n := range networks {
			pods = append(pods, pod{network: n, name: fmt.Sprintf("sample-%d-%d", n, round), node: node})
		}
		if _, err := c.apply(ctx, pods, atOnce); err != nil {
			return out, err
		}
		if at[round+1], err = c.weighNode(ctx, node); err != nil {
			return out, err
		}
	}
	each := func(of func(weight) float64) (porthole, pod float64) {
		pod = (of(at[2]) - of(at[1])) / float64(len(networks))
		return (of(at[1])-of(at[0]))/float64(len(networks)) - pod, pod
	}
	const kib = 1024
	out.Kernel, out.PodKernel = each(func(w weight) float64 { return w.kernel / kib })
	out.Heap, out.PodHeap = each(func(w weight) float64 { return w.heap / kib })
	out.RSS, _ = each(func(w weight) float64 { return w.rss / kib })
	out.Switch, _ = each(func(w weight) float64 { return w.ovs / kib })
	out.Goroutines, _ = each(func(w weight) float64 { return w.goroutines })
	return out, nil
}

// weighNode reads what is held now, after the agent has collected its garbage.
func (c *cluster) weighNode(ctx context.Context, node string) (w weight, err error) {
	first, err := c.scrape(ctx, node)
	if err != nil {
		return w, err
	}
	now := first
	// Two collections: the second one frees what the first found unused. Each reading leaves garbage, which brings the
	// next one.
	err = harness.Await(ctx, "the agent to collect its garbage", func(ctx context.Context) (bool, error) {
		for range 10 {
			if now, err = c.scrape(ctx, node); err != nil {
				return false, err
			}
		}
		return now[metricCollects] >= first[metricCollects]+2, nil
	})
	if err != nil {
		return w, err
	}
	w.heap, w.rss, w.goroutines = now[metricLiveHeap]+now[metricStacks], now[metricRSS], now[metricRoutines]
	if w.kernel, err = kernelMemory(); err != nil {
		return w, err
	}
	firstProcess, err := c.Box.FirstProcess(ctx, node)
	if err != nil {
		return w, err
	}
	switches, err := lab.Below(firstProcess, "ovs-vswitchd", "ovn-controller")
	if err != nil {
		return w, err
	}
	for _, pid := range switches {
		rss, err := sumOf(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
		if err != nil {
			return w, err
		}
		w.ovs += rss
	}
	return w, nil
}

// kernelMemory is what the kernel of this machine holds and cannot give back. Threads' stacks are among the large
// allocations. (proc_meminfo(5).)
func kernelMemory() (float64, error) {
	return sumOf("/proc/meminfo", "SUnreclaim", "Percpu", "VmallocUsed", "PageTables")
}

// sumOf adds up fields of a file whose lines are "name: number kB", in bytes.
func sumOf(path string, names ...string) (float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	sum, found := 0.0, 0
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		if !slices.Contains(names, name) {
			continue
		}
		kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		if err != nil {
			return 0, fmt.Errorf("read memory from %s: %w", path, err)
		}
		sum, found = sum+kib*1024, found+1
	}
	if found != len(names) {
		return 0, fmt.Errorf("read memory from %s: of %q there are %d", path, names, found)
	}
	return sum, nil
}
