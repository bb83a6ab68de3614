package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/check"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// nothing stands for an empty value in a table.
const nothing = "-"

// Bounds of the table; JSON has everything.
const (
	maxLines = 100
	maxWidth = 64
)

// printReport writes what a check found in a format: table or json.
func printReport(out io.Writer, r check.Report, format string) error {
	if format == formatTable {
		return printTable(out, "report", func(text *strings.Builder) { reportTable(text, r) })
	}
	if r.Differences == nil {
		r.Differences = []drift.Difference{}
	}
	return printJSON(out, "report", struct {
		check.Report
		Verdict string `json:"verdict"`
	}{r, r.Verdict()})
}

// printJSON writes a value for programs; what names it in the error.
func printJSON(out io.Writer, what string, value any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// printTable writes a text for people; what names it in the error.
func printTable(out io.Writer, what string, write func(*strings.Builder)) error {
	var text strings.Builder
	write(&text)
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

func reportTable(text *strings.Builder, r check.Report) {
	differenceTable(text, r.Differences, "DIFFERENCE", "HAVE")
	differenceTable(text, r.Repaired, "REPAIRED", "HAD")
	notes := slices.Concat(
		prefixed("not looked at: ", r.Silent), prefixed("not repaired: ", r.Problems),
	)
	if r.NodesUnasked != "" {
		notes = append(notes, "nodes are not looked at: "+snapshot.Printable(r.NodesUnasked))
	}
	if r.More > 0 {
		notes = append(notes, fmt.Sprintf("and %d more on nodes, which tell of %d each", r.More, api.MaxNodeDifferences))
	}
	for _, note := range notes {
		fmt.Fprintln(text, note)
	}
	if len(notes) > 0 {
		fmt.Fprintln(text)
	}
	fmt.Fprintln(text, r.Verdict())
}

// differenceTable writes differences below one another, and a line behind them; nothing where there are none.
func differenceTable(text *strings.Builder, all []drift.Difference, kind, have string) {
	if len(all) == 0 {
		return
	}
	table := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "OWNER\tPLACE\t%s\tOBJECT\tWANT\t%s\n", kind, have)
	for _, d := range all[:min(maxLines, len(all))] {
		object := d.Object
		if d.Column != "" {
			object += " " + d.Column
		}
		place := string(d.Place)
		if d.Node != "" {
			place += " " + snapshot.Printable(d.Node)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", snapshot.Printable(d.Owner.String()), place, snapshot.Printable(string(d.Kind)),
			snapshot.Printable(object), cell(d.Want), cell(d.Have))
	}
	_ = table.Flush() // a strings.Builder takes everything
	if more := len(all) - maxLines; more > 0 {
		fmt.Fprintf(text, "and %d more (-o json has all)\n", more)
	}
	fmt.Fprintln(text)
}

// prefixed are problems of nodes, each as a line.
func prefixed(begin string, all []check.NodeProblem) (out []string) {
	for _, p := range all {
		out = append(out, begin+snapshot.Printable(p.Node)+": "+snapshot.Printable(p.Why))
	}
	return out
}

// cell is a value that fits the table.
func cell(value string) string {
	value = snapshot.Printable(value)
	if value == "" {
		return nothing
	}
	if utf8.RuneCountInString(value) > maxWidth {
		return string([]rune(value)[:maxWidth-3]) + "..."
	}
	return value
}
