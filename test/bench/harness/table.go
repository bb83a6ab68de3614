// Package harness is what all programs that measure have in common: how they start and end (Main), the sandbox that some of them run
// in (Sandbox; the lab without nodes is package lab), what they ask others (Samples), and how they tell what they measured:
//
//	flags -> Main -> lab.Start or Sandbox.Run -> lab.StartMeter, Series, Samples -> Results -> Table, JSON
//
// A figure of a shared machine says how many of its processors others used meanwhile.
package harness

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

// Nobody stands for the use of others where it does not matter.
const Nobody = -1.0

// Table is printed when it is flushed.
type Table struct {
	to         *tabwriter.Writer
	processors int
}

// New begins a table with a title, on a machine of so many processors.
func New(to io.Writer, processors int, title string) Table {
	t := Table{tabwriter.NewWriter(to, 0, 0, 2, ' ', 0), processors}
	fmt.Fprintf(t.to, "%s\n\n", title)
	t.line("what", "target", "measured", "verdict", "processors used by others")
	return t
}

func (t Table) line(columns ...string) { fmt.Fprintln(t.to, strings.Join(columns, "\t")+"\t") }

// Judged is a figure with a target, and whether it was met; others is how many processors others used.
func (t Table) Judged(what, target, measured string, met bool, others float64) {
	t.Row(what, target, measured, Verdict(met), others)
}

// Figure is a figure without a target.
func (t Table) Figure(what, measured string, others float64) { t.Row(what, "", measured, "", others) }

// Row is a figure with a verdict in words of its own.
func (t Table) Row(what, target, measured, verdict string, others float64) {
	used := ""
	if others >= 0 {
		used = fmt.Sprintf("%.1f of %d", others, t.processors)
	}
	t.line(what, target, measured, verdict, used)
}

// Gap is an empty line.
func (t Table) Gap() { fmt.Fprintln(t.to) }

// Flush prints the table.
func (t Table) Flush() error { return t.to.Flush() }

// Verdict says whether a target was met.
func Verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

// Write leaves results in a file, as JSON.
func Write(path string, results any) error {
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return fmt.Errorf("encode results: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
