package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// results of a run. Others is how many processors were used by programs that do not take part, and by other machines.
type results struct {
	Networks   int `json:"networks"`
	Services   int `json:"services"`
	Endpoints  int `json:"endpoints"`
	Processors int `json:"processors"`
	// Rows and Packets are nil when they were not measured.
	Rows    *rowResults    `json:"rows,omitempty"`
	Packets *packetResults `json:"packets,omitempty"`
}

// The targets.
const (
	// targetKept and targetNew are how many questions per second a virtual address is to leave of those to the pod itself: on
	// connections that are kept, and with a new one for each.
	targetKept, targetNew = 0.95, 0.7
	// targetGrowth is by how much other Services may change the bytes of a change: numbers of rows have more digits.
	targetGrowth = 1.02
)

// table is what is printed.
type table struct {
	to         *tabwriter.Writer
	processors int
}

// row is one line; others below 0: does not matter.
func (t table) row(what, target, measured, verdict string, others float64) {
	used := ""
	if others >= 0 {
		used = fmt.Sprintf("%.1f of %d", others, t.processors)
	}
	fmt.Fprintf(t.to, "%s\t%s\t%s\t%s\t%s\t\n", what, target, measured, verdict, used)
}

const nobody = -1.0

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

// print writes a table for people.
func (r results) print(to io.Writer) error {
	t := table{tabwriter.NewWriter(to, 0, 0, 2, ' ', 0), r.Processors}
	fmt.Fprintf(t.to, "%d Services of %d endpoints in %d Networks of the same addresses\n\n", r.Services, r.Endpoints, r.Networks)
	fmt.Fprintln(t.to, "what\ttarget\tmeasured\tverdict\tprocessors used by others\t")
	if r.Rows != nil {
		r.Rows.print(t)
	}
	if r.Packets != nil {
		r.Packets.print(t)
	}
	return t.to.Flush()
}

func (r rowResults) print(t table) {
	change := func(m measured) string {
		return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms (the API server's answer alone: p50 %.1f ms)", m.P50, m.P99, m.AnswerP50)
	}
	writes := func(m measured) string {
		return fmt.Sprintf("%.0f bytes per change, %d transactions for %d changes", m.bytes(), m.Written.Transactions, m.Changes)
	}
	t.row(fmt.Sprintf("endpoint to row, %d per second", perSecond), "", change(r.Paced), "", r.Paced.Others)
	t.row("", "", writes(r.Paced), "", nobody)
	t.row("endpoint to row, all Services at once", "", fmt.Sprintf("%.0f changes/s, %s", r.Burst.PerSecond, change(r.Burst)), "", r.Burst.Others)
	t.row("", "", writes(r.Burst), "", nobody)
	for _, s := range r.Sizes {
		target, met := "", ""
		if few := r.bytesOf(s.Endpoints); s.Services > len(sizes()) {
			target, met = fmt.Sprintf("< %.0f", few*targetGrowth), verdict(s.Bytes < few*targetGrowth)
		}
		t.row(fmt.Sprintf("bytes of a change, %d endpoints, %d other Services", s.Endpoints, s.Services), target, fmt.Sprintf("%.0f", s.Bytes), met, nobody)
	}
	t.row("memory of the controller", "", fmt.Sprintf("%.0f MB", r.ControllerMB), "", nobody)
}

// bytesOf is what a change of a Service of a size wrote while there were few others.
func (r rowResults) bytesOf(endpoints int) float64 {
	for _, s := range r.Sizes {
		if s.Endpoints == endpoints {
			return s.Bytes
		}
	}
	return 0
}

func (r packetResults) print(t table) {
	for _, a := range r.Asked {
		target := map[bool]float64{true: targetKept, false: targetNew}[a.Kept]
		t.row(a.What, fmt.Sprintf("> %.2f of direct", target),
			fmt.Sprintf("%.2f: %.0f/s, direct %.0f/s; p50 %.2f ms, direct %.2f ms", a.ratio(), a.Virtual.PerSecond, a.Direct.PerSecond, a.Virtual.P50, a.Direct.P50),
			verdict(a.ratio() > target), a.Others)
	}
	for _, l := range r.Rolling {
		target := "0"
		if l.Lossy {
			target = ""
		}
		met := ""
		if !l.Lossy {
			met = verdict(l.failed() == 0)
		}
		t.row("errors while all pods are replaced, "+l.What, target,
			fmt.Sprintf("%d of %d, longest %.0f ms %v", l.failed(), l.Answers+l.failed(), l.MaxMilliseconds, l.Errors), met, r.RollingOthers)
	}
	for _, e := range r.Ended {
		t.row("a pod that is told to end "+e.What, "", fmt.Sprintf("p50 %.0f ms, longest %.0f ms, of %d pods", e.P50, e.Max, e.Pods), "", nobody)
	}
	t.row("", "", fmt.Sprintf("%d rollouts of %d pods in %.0f s", r.Rollouts, r.Replicas, r.RollingSeconds), "", nobody)
}

// write leaves the results in a file for programs.
func (r results) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode results: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
