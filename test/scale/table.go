package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// The targets. Those of rates through the API server are ten times what other projects do (23 to 60 pods/s, on the
// same kind of machine; docs/performance.md says how that was measured).
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

// table is what is printed: the targets first, then figures that have none.
type table struct {
	to         *tabwriter.Writer
	processors int
}

func (t table) row(columns ...string) {
	for _, c := range columns {
		fmt.Fprint(t.to, c, "\t")
	}
	fmt.Fprintln(t.to)
}

// judged is a row with a target; others is how many processors others used meanwhile.
func (t table) judged(what, target, measured string, met bool, others float64) {
	verdict := "MISSED"
	if met {
		verdict = "met"
	}
	t.row(what, target, measured, verdict, t.others(others))
}

func (t table) figure(what, measured string, others float64) {
	t.row(what, "", measured, "", t.others(others))
}

func (t table) others(n float64) string {
	if n < 0 {
		return ""
	}
	return fmt.Sprintf("%.1f of %d", n, t.processors)
}

// unknown stands for the use of others where it does not matter.
const unknown = -1.0

// print writes a table for people.
func (r results) print(to io.Writer) error {
	t := table{tabwriter.NewWriter(to, 0, 0, 2, ' ', 0), r.Processors}
	fmt.Fprintf(t.to, "%d pods in %d Networks of the same addresses, %d nodes\n\n", r.Pods, r.Networks, r.Nodes)
	t.row("what", "target", "measured", "", "processors used by others")
	r.printTargets(t)
	fmt.Fprintln(t.to)
	r.printFigures(t)
	return t.to.Flush()
}

func (r results) printTargets(t table) {
	ratio := r.Known.Annotated.RowsPerSecond / r.Known.Raw
	t.judged("rows, objects known", fmt.Sprintf("%.0f %% of the library alone", targetOfRaw*100),
		fmt.Sprintf("%.0f %%: %.0f of %.0f rows/s", ratio*100, r.Known.Annotated.RowsPerSecond, r.Known.Raw), ratio >= targetOfRaw, r.Known.Annotated.Others)
	ratio = r.Known.New.RowsPerSecond / r.Known.Raw
	t.judged("  same, and their annotations", fmt.Sprintf("%.0f %% of the library alone", targetOfRaw*100),
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
		t.judged(fmt.Sprintf("%s onto %d", what, at.Ports), target, measured, met, got.Others)
	}
	for _, at := range r.Sizes {
		t.judged(fmt.Sprintf("%d pods/s onto %d", perSecond, at.Ports), fmt.Sprintf("p50 < %.0f ms, p99 < %.0f ms", targetP50, targetP99),
			ms(at.Paced), at.Paced.P50 < targetP50 && at.Paced.P99 < targetP99, at.Paced.Others)
	}
	t.judged("restart, nothing changed", "0 transactions",
		fmt.Sprintf("%d (%d by its own count), %d annotations", r.Restart.Transactions, r.Restart.Counted, r.Restart.Annotations),
		r.Restart.Transactions == 0 && r.Restart.Counted == 0 && r.Restart.Annotations == 0, unknown)
	t.judged("restart to first new pod", fmt.Sprintf("< %.0f s", targetFirstPod), fmt.Sprintf("%.1f s", r.Restart.FirstPod), r.Restart.FirstPod < targetFirstPod, unknown)
	memory := max(r.ControllerMB, r.Restart.ControllerMB)
	t.judged("memory of the controller", fmt.Sprintf("< %.0f MB", targetMB),
		fmt.Sprintf("%.0f MB after all that, %.0f MB after a restart", r.ControllerMB, r.Restart.ControllerMB), memory < targetMB, unknown)
	t.judged("its goroutines", fmt.Sprintf("< %.0f", targetGoroutines), fmt.Sprintf("%.0f", r.Goroutines), r.Goroutines < targetGoroutines, unknown)
	each, linear := r.rowsPerNetwork()
	t.judged("rows per Network", "linear", fmt.Sprintf("%.0f", each), linear, unknown)
	t.judged("rows of Networks for nodes", "0", fmt.Sprintf("%d of all changed or came with %d nodes", r.OfNodes.Changed, r.Nodes), r.OfNodes.Changed == 0, unknown)
	if k := r.Soak; k.Seconds > 0 {
		measured := "none"
		if !k.Same {
			measured = "some, see above"
		}
		t.judged(fmt.Sprintf("differences after %.0f s of chance", k.Seconds), "none",
			fmt.Sprintf("%s; %d controllers killed, %d pods made, %d deleted, %d ports taken away, %d Networks deleted",
				measured, k.Kills, k.Made, k.Deleted, k.Ports, k.Networks), k.Same, unknown)
	}
}

func (r results) printFigures(t table) {
	for i, c := range r.Census {
		added := c.Networks
		if i > 0 {
			added -= r.Census[i-1].Networks
		}
		if c.NorthdSeconds > 0 {
			t.figure(fmt.Sprintf("northd, %d Networks added, to %d", added, c.Networks), fmt.Sprintf("%.2f s after they were ready", c.NorthdSeconds), unknown)
		}
		if c.ControllerSeconds > 0 {
			t.figure(fmt.Sprintf("ovn-controller, Network %d added", c.Networks), fmt.Sprintf("%.3f s from a pod's interface to its flows", c.ControllerSeconds), unknown)
		}
	}
	t.figure("rows of nodes", fmt.Sprintf("%.1f for each node, in %d Network", float64(r.OfNodes.Rows)/float64(r.Nodes), r.OfNodes.Networks), unknown)
	t.figure(fmt.Sprintf("%d Networks ready", r.Networks), fmt.Sprintf("%.1f s; the last one alone %.2f s", r.NetworksSeconds, r.Census[len(r.Census)-1].ReadySeconds), unknown)
	for _, a := range []struct {
		what string
		arrival
	}{{"objects known, rows missing", r.Known.Annotated}, {"  same, annotations missing too", r.Known.New}} {
		t.figure(a.what, fmt.Sprintf("all rows %.1f s after the controller's start", a.Seconds), a.Others)
	}
	t.figure("pods deleted, others made", fmt.Sprintf("%.0f pairs/s; made %s; deleted %s", r.Came.PodsPerSecond, ms(r.Came), ms(r.Went)), r.Came.Others)
	t.figure("all objects known after a restart", fmt.Sprintf("%.1f s", r.Restart.AllKnown), unknown)
	t.figure("heap of the controller", fmt.Sprintf("%.0f MB in use", r.HeapMB), unknown)
	t.figure("library alone", fmt.Sprintf("%.0f rows/s in batches of %v", r.Known.Raw, r.Known.Batches), r.Known.RawOthers)
	t.figure("API server without a controller", fmt.Sprintf("%.0f pods/s created", r.Known.APIAlone), unknown)
}

func ms(s series) string {
	text := fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", s.P50, s.P99)
	if s.API50 > 0 {
		text += fmt.Sprintf(" (API server's answer %.1f, %.1f)", s.API50, s.API99)
	}
	return text
}
