package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/verdicts"
)

// listed are names in one line.
func listed(names []string) string {
	if len(names) == 0 {
		return nothing
	}
	return snapshot.Printable(strings.Join(names, ", "))
}

// printVerdicts writes the counts in a format: table or json.
func printVerdicts(out io.Writer, v verdicts.Verdicts, format string) error {
	if format == formatTable {
		return printTable(out, "verdicts", func(text *strings.Builder) { verdictsTable(text, v) })
	}
	if v.Rows == nil {
		v.Rows = []verdicts.Row{}
	}
	return printJSON(out, "verdicts", struct {
		verdicts.Verdicts
		Verdict string `json:"verdict"`
	}{v, v.Verdict()})
}

func verdictsTable(text *strings.Builder, v verdicts.Verdicts) {
	if len(v.Rows) > 0 {
		table := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "NETWORK\tPOLICY\tDIRECTION\tRULE\tVERDICT\tNODE\tPACKETS")
		for _, r := range v.Rows {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", snapshot.Printable(cmp.Or(r.Network, "-")), snapshot.Printable(r.Policy),
				snapshot.Printable(r.Direction),
				cell(r.Rule), snapshot.Printable(r.Verdict), snapshot.Printable(r.Node), r.Packets)
		}
		_ = table.Flush() // a strings.Builder takes everything
		fmt.Fprintln(text)
	}
	if len(v.Isolated) > 0 {
		table := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "ISOLATED POD\tDIRECTION\tDROPPED\tONE OF THESE MUST ALLOW IT")
		for _, p := range v.Isolated {
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", snapshot.Printable(p.Pod), p.Direction, p.Packets, listed(p.Policies))
		}
		_ = table.Flush()
		fmt.Fprintln(text)
	}
	fmt.Fprintln(text, v.Verdict())
}
