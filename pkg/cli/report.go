package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Bounds of the table; JSON has everything.
const (
	maxLines = 100
	maxWidth = 64
)

// Report is what a check found.
type Report struct {
	// Networks and Pods that were looked at, and Rows that they want of the northbound database.
	Networks int `json:"networks"`
	Pods     int `json:"pods"`
	Rows     int `json:"rows"`
	// Refused pods have no port because they may not have one: that is as it should be.
	Refused     int          `json:"refused"`
	Differences []Difference `json:"differences"`
}

// Verdict is the report in one line, with what to do next when something differs.
func (r Report) Verdict() string {
	unbound := 0
	for _, d := range r.Differences {
		if d.Kind == NotBound {
			unbound++
		}
	}
	line := count(len(r.Differences)-unbound, "difference")
	if unbound > 0 {
		line += " and " + count(unbound, "port") + " not bound"
	}
	line += fmt.Sprintf(" in %s, %s, %s", count(r.Networks, "Network"), count(r.Pods, "pod"), count(r.Rows, "row"))
	if r.Refused > 0 {
		line += fmt.Sprintf("; %s refused (their Events say why)", count(r.Refused, "pod"))
	}
	if next := r.next(); next != "" {
		line += ". Next: " + next
	}
	return line
}

// next says what to look at: the first place on a pod's way where something differs.
func (r Report) next() string {
	if len(r.Differences) == 0 {
		return ""
	}
	first := slices.MinFunc(r.Differences, compareDifferences)
	switch first.Place {
	case PlaceAPI, PlaceNorthbound:
		return "does a controller lead (kubectl -n atoll-system get lease atoll-controller), and what does its log say?"
	case PlaceSouthbound:
		return "do ovn-northd, and on the pod's node ovn-controller and atoll-agent, run, and what do their logs say?"
	case PlaceNode:
		return "what does atoll-agent's log on the node say?"
	}
	return ""
}

// Print writes the report in a format: table or json.
func (r Report) Print(out io.Writer, format string) error {
	if format == formatJSON {
		return r.printJSON(out)
	}
	return r.printTable(out)
}

func (r Report) printJSON(out io.Writer) error {
	if r.Differences == nil {
		r.Differences = []Difference{}
	}
	return printJSON(out, "report", struct {
		Report
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

func (r Report) printTable(out io.Writer) error {
	var text strings.Builder
	if len(r.Differences) > 0 {
		table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "OWNER\tPLACE\tDIFFERENCE\tOBJECT\tWANT\tHAVE")
		for _, d := range r.Differences[:min(maxLines, len(r.Differences))] {
			object := d.Object
			if d.Column != "" {
				object += " " + d.Column
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", printable(string(d.Owner)), d.Place, d.Kind, printable(object), cell(d.Want), cell(d.Have))
		}
		_ = table.Flush() // a strings.Builder takes everything
		if more := len(r.Differences) - maxLines; more > 0 {
			fmt.Fprintf(&text, "and %d more (-o json has all)\n", more)
		}
		fmt.Fprintln(&text)
	}
	fmt.Fprintln(&text, r.Verdict())
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// cell is a value that fits the table.
func cell(value string) string {
	value = printable(value)
	if value == "" {
		return nothing
	}
	if utf8.RuneCountInString(value) > maxWidth {
		return string([]rune(value)[:maxWidth-3]) + "..."
	}
	return value
}

// printable keeps what somebody wrote into a database from moving the cursor of whoever reads it.
func printable(value string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, value)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
