package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/atoll-net/atoll/test/bench/harness"
)

// results of a run. Rates are per second, times in milliseconds unless they say otherwise.
type results struct {
	Single   series `json:"single"`
	Paced    series `json:"paced"`
	Burst500 series `json:"burst500"`
	Burst    series `json:"burst"`

	// Limit500 and Limit are the same pods, created and patched once by a program that does nothing else.
	Limit500 harness.Series `json:"limit500"`
	Limit    harness.Series `json:"limit"`

	PatchesPerPod float64 `json:"patchesPerPod"`
	StatusWrites  int     `json:"statusWrites"`
	// WatchesEnded is how often the API server ended a watch of pods that fell behind.
	WatchesEnded int `json:"watchesEnded"`
	// Processor time per pod, in milliseconds: the controller's over all pods, and that of everything that
	// takes part (API server, etcd, database, we) over the large burst.
	CPUPerPod    float64 `json:"controllerCPUPerPod"`
	AllCPUPerPod float64 `json:"allCPUPerPod"`

	ControllerMB   float64 `json:"controllerMB"`
	RestartSeconds float64 `json:"restartSeconds"`

	// Processors is how many the machine has, Programs and Machines how many of them other programs and other
	// machines used during the large burst.
	Processors int     `json:"processors"`
	Programs   float64 `json:"usedByOtherPrograms"`
	Machines   float64 `json:"usedByOtherMachines"`

	APIAlone        float64 `json:"apiAlonePodsPerSecond"`
	DatabaseSingle  float64 `json:"databaseAlonePortsPerSecond"`
	DatabaseBatched float64 `json:"databaseAlonePortsPerSecondBatched"`

	// Agent is what the agent's own benchmark printed.
	Agent []string `json:"agent,omitempty"`
}

// series is the time from object to row of some pods.
type series struct {
	harness.Series
	// Annotated is the same rate until the pods' annotations were written, which their nodes wait for.
	Annotated float64 `json:"annotatedPerSecond"`
}

func newSeries(took []time.Duration, rows, annotations time.Duration) series {
	return series{Series: harness.NewSeries(took, rows), Annotated: float64(len(took)) / annotations.Seconds()}
}

// The goals of this project for these figures.
const (
	goalBurst   = 500 // pods per second
	goalPaced   = 7.0 // ms, median
	goalPatches = 1.0 // per pod
	// What a burst reaches of the same pods' limit at the API server, until their annotations are written, and how much longer the slowest may
	// take to their rows than there to their patch.
	goalShare, goalTail = 0.85, 2.0
)

// Print writes a table for people. The figures of other projects were measured on the same kind of machine (2
// shared cores, real API server, no northd, no kubelet); docs/design/ says how.
func (r results) Print(to io.Writer) error {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	row := func(columns ...string) {
		for _, c := range columns {
			fmt.Fprint(t, c, "\t")
		}
		fmt.Fprintln(t)
	}
	ms := func(s series) string { return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", s.P50, s.P99) }
	rate := func(s series) string {
		return fmt.Sprintf("%.0f pods/s (annotated %.0f), %s", s.PodsPerSecond, s.Annotated, ms(s))
	}
	burst := fmt.Sprintf("> %d pods/s", goalBurst)
	row("object to NB row", "here", "goal", "", "ovn-kubernetes (UDN)", "kube-ovn")
	row("one pod at a time", ms(r.Single), "", "", "", "")
	row("10 pods/s", ms(r.Paced), fmt.Sprintf("p50 < %.0f ms", goalPaced), harness.Verdict(r.Paced.P50 < goalPaced), "p50 7 to 12 ms",
		"p50 6 to 11 ms")
	row("burst of 500", rate(r.Burst500), burst, harness.Verdict(r.Burst500.PodsPerSecond > goalBurst), "23 to 59 pods/s", "38 to 60 pods/s")
	row(fmt.Sprintf("burst of %d", r.Burst.Pods), rate(r.Burst), burst, harness.Verdict(r.Burst.PodsPerSecond > goalBurst), "", "")
	r.printLimit(row)
	row("API writes per pod", fmt.Sprintf("%.2f", r.PatchesPerPod),
		fmt.Sprintf("%.0f", goalPatches), harness.Verdict(r.PatchesPerPod < goalPatches+0.005), "1 to 2", "about 6.3")
	row("writes of Networks' status", fmt.Sprint(r.StatusWrites), "", "", "", "")
	row("watches of pods that the API server ended", fmt.Sprint(r.WatchesEnded), "", "", "", "")
	row("processor time per pod", fmt.Sprintf("controller %.2f ms, everything %.2f ms", r.CPUPerPod, r.AllCPUPerPod), "", "", "", "")
	row("memory of the controller", fmt.Sprintf("%.0f MB at %d pods", r.ControllerMB, r.pods()), "", "", "235 MB at 300 pods",
		"313 MB at 26,000 ports")
	row("restart to first new pod", fmt.Sprintf("%.1f s at %d pods", r.RestartSeconds, r.pods()), "", "", "3.3 s at 300 pods",
		"5.1 s at 3,036 pods")
	fmt.Fprintln(t)
	row("in the same run, alone")
	row("API server", fmt.Sprintf("%.0f pods/s created, nobody watching", r.APIAlone))
	row("processors", fmt.Sprintf("%d; others used %.1f during the large burst", r.Processors, r.Programs+r.Machines))
	row("database, libovsdb", fmt.Sprintf("%.0f ports/s one at a time, %.0f in hundreds", r.DatabaseSingle, r.DatabaseBatched))
	if len(r.Agent) > 0 {
		fmt.Fprintln(t)
		row("agent")
		for _, line := range r.Agent {
			row(line)
		}
	}
	return t.Flush()
}

// printLimit writes the bursts as parts of what the API server allows anybody.
func (r results) printLimit(row func(...string)) {
	for _, part := range []struct {
		ours  series
		limit harness.Series
	}{{r.Burst500, r.Limit500}, {r.Burst, r.Limit}} {
		share, tail := part.ours.Annotated/part.limit.PodsPerSecond, part.ours.P99/part.limit.P99
		row(fmt.Sprintf("  of %d created and patched by a program that does nothing else", part.ours.Pods),
			fmt.Sprintf("%.0f %% of its %.0f pods/s; p99 %.1f times its %.0f ms", 100*share, part.limit.PodsPerSecond, tail, part.limit.P99),
			fmt.Sprintf("> %.0f %%, < %.0f times", 100*goalShare, goalTail), harness.Verdict(share > goalShare && tail < goalTail), "", "")
	}
}

func (r results) pods() int { return r.Single.Pods + r.Paced.Pods + r.Burst500.Pods + r.Burst.Pods }
