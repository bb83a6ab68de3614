package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/atoll-net/atoll/pkg/inspect/policytrace"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// printTrace writes a trace in a format: table or json.
func printTrace(out io.Writer, t policytrace.Trace, format string) error {
	if format == formatTable {
		return printTable(out, "trace", func(text *strings.Builder) { traceTable(text, t) })
	}
	return printJSON(out, "trace", struct {
		policytrace.Trace
		Verdict string `json:"verdict"`
	}{t, t.Verdict()})
}

func traceTable(text *strings.Builder, t policytrace.Trace) {
	table := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "FROM\tTO\tDIRECTION\tPOD\tVERDICT\tBY")
	for _, p := range t.Paths {
		to := p.To
		if p.Dialled != "" {
			to = p.Dialled + " at " + p.To
		}
		if p.Refused {
			fmt.Fprintf(table, "%s\t%s\t-\t-\trefuse\tthe Service has no endpoints\n", p.From, p.Dialled)
		}
		for _, s := range p.Steps {
			by := strings.Join(append([]string{s.Reason}, s.Also...), "; or ")
			if len(s.Isolating) > 0 {
				by += "; isolated by " + strings.Join(s.Isolating, ", ")
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", p.From, to, s.Direction, snapshot.Printable(s.Pod), s.Verdict, snapshot.Printable(by))
		}
	}
	_ = table.Flush() // a strings.Builder takes everything
	fmt.Fprintf(text, "\n%s\n", t.Verdict())
}
