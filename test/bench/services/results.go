package main

import (
	"fmt"
	"io"

	"github.com/atoll-net/atoll/test/bench/harness"
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

// Print writes a table for people.
func (r results) Print(to io.Writer) error {
	t := harness.New(to, r.Processors,
		fmt.Sprintf("%d Services of %d endpoints in %d Networks of the same addresses", r.Services, r.Endpoints, r.Networks))
	if r.Rows != nil {
		r.Rows.print(t)
	}
	if r.Packets != nil {
		r.Packets.print(t)
	}
	return t.Flush()
}

func (r rowResults) print(t harness.Table) {
	change := func(m measured) string {
		return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms (the API server's answer alone: p50 %.1f ms)", m.P50, m.P99, m.AnswerP50)
	}
	writes := func(m measured) string {
		return fmt.Sprintf("%.0f bytes per change, %d transactions for %d changes", m.bytes(), m.Written.Transactions, m.Changes)
	}
	t.Figure(fmt.Sprintf("endpoint to row, %d per second", perSecond), change(r.Paced), r.Paced.Others)
	t.Figure("", writes(r.Paced), harness.Nobody)
	t.Figure("endpoint to row, all Services at once", fmt.Sprintf("%.0f changes/s, %s", r.Burst.PerSecond, change(r.Burst)), r.Burst.Others)
	t.Figure("", writes(r.Burst), harness.Nobody)
	for _, s := range r.Sizes {
		target, met := "", ""
		if few := r.bytesOf(s.Endpoints); s.Services > len(sizes()) {
			target, met = fmt.Sprintf("< %.0f", few*targetGrowth), harness.Verdict(s.Bytes < few*targetGrowth)
		}
		t.Row(fmt.Sprintf("bytes of a change, %d endpoints, %d other Services", s.Endpoints, s.Services), target, fmt.Sprintf("%.0f", s.Bytes),
			met, harness.Nobody)
	}
	t.Figure("memory of the controller", fmt.Sprintf("%.0f MB", r.ControllerMB), harness.Nobody)
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

func (r packetResults) print(t harness.Table) {
	for _, a := range r.Asked {
		target := map[bool]float64{true: targetKept, false: targetNew}[a.Kept]
		t.Row(a.What, fmt.Sprintf("> %.2f of direct", target),
			fmt.Sprintf("%.2f: %.0f/s, direct %.0f/s; p50 %.2f ms, direct %.2f ms", a.ratio(), a.Virtual.PerSecond, a.Direct.PerSecond,
				a.Virtual.P50, a.Direct.P50),
			harness.Verdict(a.ratio() > target), a.Others)
	}
	for _, l := range r.Rolling {
		target := "0"
		if l.Lossy {
			target = ""
		}
		met := ""
		if !l.Lossy {
			met = harness.Verdict(l.failed() == 0)
		}
		t.Row("errors while all pods are replaced, "+l.What, target,
			fmt.Sprintf("%d of %d, longest %.0f ms %v", l.failed(), l.Answers+l.failed(), l.MaxMilliseconds, l.Errors), met, r.RollingOthers)
	}
	for _, e := range r.Ended {
		t.Figure("a pod that is told to end "+e.What, fmt.Sprintf("p50 %.0f ms, longest %.0f ms, of %d pods", e.P50, e.Max, e.Pods),
			harness.Nobody)
	}
	t.Figure("", fmt.Sprintf("%d rollouts of %d pods in %.0f s", r.Rollouts, r.Replicas, r.RollingSeconds), harness.Nobody)
}
