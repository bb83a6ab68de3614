package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/atoll-net/atoll/pkg/inspect"
)

// nothing stands for an empty value in a table.
const nothing = "-"

// Bounds of the table; JSON has everything.
const (
	maxLines = 100
	maxWidth = 64
)

// printReport writes what a check found in a format: table or json.
func printReport(out io.Writer, r inspect.Report, format string) error {
	if format == formatTable {
		return printTable(out, "report", func(text *strings.Builder) { reportTable(text, r) })
	}
	if r.Differences == nil {
		r.Differences = []inspect.Difference{}
	}
	return printJSON(out, "report", struct {
		inspect.Report
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

func reportTable(text *strings.Builder, r inspect.Report) {
	if len(r.Differences) > 0 {
		table := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "OWNER\tPLACE\tDIFFERENCE\tOBJECT\tWANT\tHAVE")
		for _, d := range r.Differences[:min(maxLines, len(r.Differences))] {
			object := d.Object
			if d.Column != "" {
				object += " " + d.Column
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", inspect.Printable(d.Owner.String()), d.Place, d.Kind, inspect.Printable(object), cell(d.Want), cell(d.Have))
		}
		_ = table.Flush() // a strings.Builder takes everything
		if more := len(r.Differences) - maxLines; more > 0 {
			fmt.Fprintf(text, "and %d more (-o json has all)\n", more)
		}
		fmt.Fprintln(text)
	}
	fmt.Fprintln(text, r.Verdict())
}

// cell is a value that fits the table.
func cell(value string) string {
	value = inspect.Printable(value)
	if value == "" {
		return nothing
	}
	if utf8.RuneCountInString(value) > maxWidth {
		return string([]rune(value)[:maxWidth-3]) + "..."
	}
	return value
}
