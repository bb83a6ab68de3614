package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
)

// maxFlowLines bounds the table; JSON has all.
const maxFlowLines = 1000

func flowsTable(text *strings.Builder, list api.FlowList, q flows.Question, wide bool, zone *time.Location) {
	flows := flows.Together(list.Items)
	what := "flow"
	if q.Drops {
		what = "flow that did not get through"
	}
	if len(flows) == 0 {
		fmt.Fprintf(text, "No %s in the last %s, told by %s. Pods that no policy selects have none.\n",
			what, ageText(q.Since), model.Count(list.Status.Nodes, "node"))
		return
	}
	shown := flows[max(0, len(flows)-maxFlowLines):]
	lines := [][]string{flowsHead(wide)}
	for _, f := range shown {
		lines = append(lines, flowCells(f, wide, zone))
	}
	columns(text, lines...)
	fmt.Fprintln(text)
	if hidden := len(flows) - len(shown); hidden > 0 {
		fmt.Fprintf(text, "The newest %d; %d are older (-o json has all).\n", len(shown), hidden)
	}
	count := model.Count(len(flows), "flow")
	if q.Drops {
		count += " that did not get through"
	}
	fmt.Fprintf(text, "%s in the last %s, told by %s.\n", count, ageText(q.Since), model.Count(list.Status.Nodes, "node"))
}

// ageText is an age as people write it: 10m and not 10m0s.
func ageText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func flowsHead(wide bool) []string {
	head := []string{"TIME", "NETWORK", "FROM", "TO", "PORT", "VERDICT", "POLICY", "COUNT"}
	if wide {
		head = append(head, "DIRECTION", "RULE", "NODE", "PACKETS", "BYTES")
	}
	return head
}

func flowCells(f api.Flow, wide bool, zone *time.Location) []string {
	layout := time.TimeOnly
	if wide {
		layout = time.DateTime
	}
	cells := []string{
		f.Last.In(zone).Format(layout), cmp.Or(f.Network, nothing), placeText(f.From, wide), placeText(f.To, wide), cmp.Or(flows.PortWords(f),
			nothing), cmp.Or(f.Verdict, nothing),
		cmp.Or(f.Policy, nothing), fmt.Sprint(f.Connections),
	}
	if wide {
		cells = append(cells, cmp.Or(f.Direction, nothing), cmp.Or(f.Rule, nothing), cmp.Or(f.Node, nothing), fmt.Sprint(f.Packets),
			fmt.Sprint(f.Bytes))
	}
	return cells
}

// placeText is an end of a flow in a cell.
func placeText(e api.FlowEnd, wide bool) string {
	text := flows.EndWords(e)
	if wide && e.Name != "" && e.Address != "" {
		text += " (" + e.Address + ")"
	}
	return text
}

// flowLines are lines of a table that nobody knows the end of: a column is as wide as its widest cell so far.
type flowLines struct {
	wide   bool
	zone   *time.Location
	widths []int
}

// text is a flow's line; before the first one stand the names of the columns.
func (l *flowLines) text(f api.Flow) string {
	var out strings.Builder
	if l.widths == nil {
		// As wide as most names are.
		l.widths = []int{8, 8, 20, 20, 8, 7, 24, 5}
		if l.wide {
			l.widths = []int{19, 8, 32, 32, 8, 7, 24, 5, 9, 4, 8, 7, 6}
		}
		l.line(&out, flowsHead(l.wide))
	}
	l.line(&out, flowCells(f, l.wide, l.zone))
	return out.String()
}

func (l *flowLines) line(out *strings.Builder, cells []string) {
	for i, c := range cells {
		c = cell(c)
		width := utf8.RuneCountInString(c)
		l.widths[i] = max(l.widths[i], width)
		out.WriteString(c)
		if i < len(cells)-1 {
			out.WriteString(strings.Repeat(" ", l.widths[i]-width+3))
		}
	}
	out.WriteByte('\n')
}

// printLine writes a value as one line of JSON.
func printLine(out io.Writer, value any) error {
	if err := json.NewEncoder(out).Encode(value); err != nil {
		return fmt.Errorf("write flows: %w", err)
	}
	return nil
}
