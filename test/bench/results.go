package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/atoll-net/atoll/test/bench/table"
	"github.com/atoll-net/atoll/test/lab"
)

// results of a run. Rates are per second, times in milliseconds unless they say otherwise.
type results struct {
	Single   series `json:"single"`
	Paced    series `json:"paced"`
	Burst500 series `json:"burst500"`
	Burst    series `json:"burst"`

	PatchesPerPod float64 `json:"patchesPerPod"`
	StatusWrites  int     `json:"statusWrites"`
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
	Pods          int     `json:"pods"`
	PodsPerSecond float64 `json:"podsPerSecond"`
	// Annotated is the same rate until the pods' annotations were written, which their nodes wait for.
	Annotated float64 `json:"annotatedPerSecond"`
	P50       float64 `json:"p50"`
	P99       float64 `json:"p99"`
}

func newSeries(took []time.Duration, rows, annotations time.Duration) series {
	slices.Sort(took)
	return series{
		Pods:          len(took),
		PodsPerSecond: float64(len(took)) / rows.Seconds(),
		Annotated:     float64(len(took)) / annotations.Seconds(),
		P50:           lab.Percentile(took, 50),
		P99:           lab.Percentile(took, 99),
	}
}

// The goals of this project for these figures.
const (
	goalBurst   = 500 // pods per second
	goalPaced   = 7.0 // ms, median
	goalPatches = 1.0 // per pod
)

// print writes a table for people. The figures of other projects were measured on the same kind of machine (2
// shared cores, real API server, no northd, no kubelet); docs/design/ says how.
func (r results) print(to io.Writer) error {
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
	row("10 pods/s", ms(r.Paced), fmt.Sprintf("p50 < %.0f ms", goalPaced), table.Verdict(r.Paced.P50 < goalPaced), "p50 7 to 12 ms", "p50 6 to 11 ms")
	row("burst of 500", rate(r.Burst500), burst, table.Verdict(r.Burst500.PodsPerSecond > goalBurst), "23 to 59 pods/s", "38 to 60 pods/s")
	row(fmt.Sprintf("burst of %d", r.Burst.Pods), rate(r.Burst), burst, table.Verdict(r.Burst.PodsPerSecond > goalBurst), "", "")
	row("API writes per pod", fmt.Sprintf("%.2f", r.PatchesPerPod), fmt.Sprintf("%.0f", goalPatches), table.Verdict(r.PatchesPerPod < goalPatches+0.005), "1 to 2", "about 6.3")
	row("writes of Networks' status", fmt.Sprint(r.StatusWrites), "", "", "", "")
	row("processor time per pod", fmt.Sprintf("controller %.2f ms, everything %.2f ms", r.CPUPerPod, r.AllCPUPerPod), "", "", "", "")
	row("memory of the controller", fmt.Sprintf("%.0f MB at %d pods", r.ControllerMB, r.pods()), "", "", "235 MB at 300 pods", "313 MB at 26,000 ports")
	row("restart to first new pod", fmt.Sprintf("%.1f s at %d pods", r.RestartSeconds, r.pods()), "", "", "3.3 s at 300 pods", "5.1 s at 3,036 pods")
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

func (r results) pods() int { return r.Single.Pods + r.Paced.Pods + r.Burst500.Pods + r.Burst.Pods }
