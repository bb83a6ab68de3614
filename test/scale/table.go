package main

import (
	"fmt"
	"io"

	"github.com/atoll-net/atoll/test/bench/harness"
)

// The targets. Those of rates through the API server are ten times what other projects do (23 to 60 pods/s, on the
// same kind of machine; docs/design/measurements.md says how that was measured).
const (
	targetOfRaw      = 0.5
	targetBurst      = 600.0 // pods per second
	targetOfEmpty    = 0.8
	targetP50        = 5.0  // ms
	targetP99        = 15.0 // ms
	targetFirstPod   = 10.0 // s
	targetMB         = 600.0
	targetGoroutines = 200.0
)

// Print writes a table for people.
func (r results) Print(to io.Writer) error {
	t := harness.New(to, r.Processors, fmt.Sprintf("%d pods in %d Networks of the same addresses, %d nodes", r.Pods, r.Networks, r.Nodes))
	r.printTargets(t)
	t.Gap()
	r.printFigures(t)
	return t.Flush()
}

func (r results) printTargets(t harness.Table) {
	ratio := r.Known.Annotated.RowsPerSecond / r.Known.Raw
	t.Judged("rows, objects known", fmt.Sprintf("%.0f %% of the library alone", targetOfRaw*100),
		fmt.Sprintf("%.0f %%: %.0f of %.0f rows/s", ratio*100, r.Known.Annotated.RowsPerSecond, r.Known.Raw), ratio >= targetOfRaw,
		r.Known.Annotated.Others)
	ratio = r.Known.New.RowsPerSecond / r.Known.Raw
	t.Judged("  same, and their annotations", fmt.Sprintf("%.0f %% of the library alone", targetOfRaw*100),
		fmt.Sprintf("%.0f %%: %.0f of %.0f rows/s", ratio*100, r.Known.New.RowsPerSecond, r.Known.Raw), ratio >= targetOfRaw, r.Known.New.Others)
	empty := r.Sizes[0].burst().PodsPerSecond
	for i, at := range r.Sizes {
		got := at.burst()
		what, target, met := fmt.Sprintf("burst of %d", r.BurstOf), fmt.Sprintf("> %.0f pods/s", targetBurst), got.PodsPerSecond > targetBurst
		measured := fmt.Sprintf("%.0f pods/s", got.PodsPerSecond)
		if i > 0 {
			target, met = fmt.Sprintf(">= %.0f %% of the first", targetOfEmpty*100), got.PodsPerSecond >= targetOfEmpty*empty
			measured = fmt.Sprintf("%.0f %%: %s", 100*got.PodsPerSecond/empty, measured)
		}
		t.Judged(fmt.Sprintf("%s onto %d", what, at.Ports), target, measured, met, got.Others)
	}
	for _, at := range r.Sizes {
		t.Judged(fmt.Sprintf("%d pods/s onto %d", perSecond, at.Ports), fmt.Sprintf("p50 < %.0f ms, p99 < %.0f ms", targetP50, targetP99),
			ms(at.Paced), at.Paced.P50 < targetP50 && at.Paced.P99 < targetP99, at.Paced.Others)
	}
	t.Judged("restart, nothing changed", "0 transactions",
		fmt.Sprintf("%d (%d by its own count), %d annotations", r.Restart.Transactions, r.Restart.Counted, r.Restart.Annotations),
		r.Restart.Transactions == 0 && r.Restart.Counted == 0 && r.Restart.Annotations == 0, harness.Nobody)
	t.Judged("restart to first new pod", fmt.Sprintf("< %.0f s", targetFirstPod), fmt.Sprintf("%.1f s", r.Restart.FirstPod),
		r.Restart.FirstPod < targetFirstPod, harness.Nobody)
	memory := max(r.ControllerMB, r.Restart.ControllerMB)
	t.Judged("memory of the controller", fmt.Sprintf("< %.0f MB", targetMB),
		fmt.Sprintf("%.0f MB after all that, %.0f MB after a restart", r.ControllerMB, r.Restart.ControllerMB), memory < targetMB, harness.Nobody)
	t.Judged("its goroutines", fmt.Sprintf("< %.0f", targetGoroutines), fmt.Sprintf("%.0f", r.Goroutines), r.Goroutines < targetGoroutines,
		harness.Nobody)
	each, linear := r.rowsPerNetwork()
	t.Judged("rows per Network", "linear", fmt.Sprintf("%.0f", each), linear, harness.Nobody)
	t.Judged("rows of Networks for nodes", "0", fmt.Sprintf("%d of all changed or came with %d nodes", r.OfNodes.Changed, r.Nodes),
		r.OfNodes.Changed == 0, harness.Nobody)
	if k := r.Soak; k.Seconds > 0 {
		measured := "none"
		if !k.Same {
			measured = "some, see above"
		}
		t.Judged(fmt.Sprintf("differences after %.0f s of chance", k.Seconds), "none",
			fmt.Sprintf("%s; %d controllers killed, %d pods made, %d deleted, %d ports taken away, %d Networks deleted",
				measured, k.Kills, k.Made, k.Deleted, k.Ports, k.Networks), k.Same, harness.Nobody)
	}
}

func (r results) printFigures(t harness.Table) {
	for i, c := range r.Census {
		added := c.Networks
		if i > 0 {
			added -= r.Census[i-1].Networks
		}
		if c.NorthdSeconds > 0 {
			t.Figure(fmt.Sprintf("northd, %d Networks added, to %d", added, c.Networks),
				fmt.Sprintf("%.2f s after they were ready", c.NorthdSeconds), harness.Nobody)
		}
		if c.ControllerSeconds > 0 {
			t.Figure(fmt.Sprintf("ovn-controller, Network %d added", c.Networks),
				fmt.Sprintf("%.3f s from a pod's interface to its flows", c.ControllerSeconds), harness.Nobody)
		}
	}
	t.Figure("rows of nodes", fmt.Sprintf("%.1f for each node, in %d Network", float64(r.OfNodes.Rows)/float64(r.Nodes), r.OfNodes.Networks),
		harness.Nobody)
	t.Figure(fmt.Sprintf("%d Networks ready", r.Networks),
		fmt.Sprintf("%.1f s; the last one alone %.2f s", r.NetworksSeconds, r.Census[len(r.Census)-1].ReadySeconds), harness.Nobody)
	for _, a := range []struct {
		what string
		arrival
	}{{"objects known, rows missing", r.Known.Annotated}, {"  same, annotations missing too", r.Known.New}} {
		t.Figure(a.what, fmt.Sprintf("all rows %.1f s after the controller's start", a.Seconds), a.Others)
	}
	t.Figure("pods deleted, others made", fmt.Sprintf("%.0f pairs/s; made %s; deleted %s", r.Came.PodsPerSecond, ms(r.Came), ms(r.Went)),
		r.Came.Others)
	t.Figure("all objects known after a restart", fmt.Sprintf("%.1f s", r.Restart.AllKnown), harness.Nobody)
	t.Figure("heap of the controller", fmt.Sprintf("%.0f MB in use", r.HeapMB), harness.Nobody)
	t.Figure("memory of atoll-inspect", fmt.Sprintf("%.0f MB with all objects, %.0f MB with OVN's rows, %.0f MB at most, of %d operators at once "+
		"(%d answers, the largest %.1f MB; %d refused, %d late)", r.Inspection.IdleMB, r.Inspection.RowsMB, r.Inspection.MostMB, askers,
		r.Inspection.Answered, r.Inspection.LargestMB, r.Inspection.Refused, r.Inspection.Late), harness.Nobody)
	t.Figure("atoll-inspect's first explanation", fmt.Sprintf("after %.1f s, by which it had read all rows", r.Inspection.RowsSeconds),
		harness.Nobody)
	t.Figure("library alone", fmt.Sprintf("%.0f rows/s in batches of %v", r.Known.Raw, r.Known.Batches), r.Known.RawOthers)
	t.Figure("API server without a controller", fmt.Sprintf("%.0f pods/s created", r.Known.APIAlone), harness.Nobody)
}

func ms(s series) string {
	text := fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", s.P50, s.P99)
	if s.API50 > 0 {
		text += fmt.Sprintf(" (API server's answer %.1f, %.1f)", s.API50, s.API99)
	}
	return text
}
