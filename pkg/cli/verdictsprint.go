package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/atoll-net/atoll/pkg/model"
)

// Verdicts are what the agents have counted.
type Verdicts struct {
	Nodes int          `json:"nodes"`
	Rows  []VerdictRow `json:"verdicts"`
	// Isolated are the pods that isolation has dropped packets of, with the policies that isolate them. Unknown says why these
	// are not known.
	Isolated []IsolatedPod `json:"isolated,omitempty"`
	Unknown  string        `json:"unknown,omitempty"`
}

// VerdictRow is what one rule has decided on one node.
type VerdictRow struct {
	Node string `json:"node"`
	model.VerdictCount
}

// IsolatedPod is a pod with packets that no policy allowed.
type IsolatedPod struct {
	Pod       string   `json:"pod"`
	Direction string   `json:"direction"`
	Packets   uint64   `json:"packets"`
	Policies  []string `json:"policies"`
}

// explain names the policies that isolate the pods of which isolation has dropped something.
func (v *Verdicts) explain(objects model.Changes) {
	type place struct{ pod, direction string }
	packets := map[place]uint64{}
	for _, r := range v.Rows {
		if isIsolation(r.VerdictCount) {
			for pod, n := range r.Pods {
				packets[place{pod, r.Direction}] += n
			}
		}
	}
	for at, n := range packets {
		pod, _ := podOf("Pod/" + at.pod)
		direction := model.PolicyIngress
		if at.direction == model.PolicyEgress.String() {
			direction = model.PolicyEgress
		}
		v.Isolated = append(v.Isolated, IsolatedPod{Pod: at.pod, Direction: at.direction, Packets: n, Policies: isolating(objects, pod, direction)})
	}
	slices.SortFunc(v.Isolated, func(a, b IsolatedPod) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Direction, b.Direction))
	})
}

// Verdict is the whole in one line, with what to do next when something was dropped.
func (v Verdicts) Verdict() string {
	var dropped uint64
	for _, r := range v.Rows {
		if r.Verdict == verdictWord(false) {
			dropped += r.Packets
		}
	}
	line := fmt.Sprintf("%s of %s; %s dropped", count(len(v.Rows), "count"), count(v.Nodes, "node"), count(int(dropped), "packet"))
	switch {
	case dropped == 0:
		return line
	case v.Unknown != "":
		return line + ". Which policies isolate the pods is not known: " + v.Unknown
	case len(v.Isolated) == 0:
		return line + ". Next: atoll policy trace FROM TO --port PORT"
	case v.Isolated[0].Direction == model.PolicyEgress.String():
		return line + ". Next: atoll policy trace " + v.Isolated[0].Pod + " TO --port PORT"
	}
	return line + ". Next: atoll policy trace FROM " + v.Isolated[0].Pod + " --port PORT"
}

// listed are names in one line.
func listed(names []string) string {
	if len(names) == 0 {
		return nothing
	}
	return printable(strings.Join(names, ", "))
}

// Print writes the counts in a format: table or json.
func (v Verdicts) Print(out io.Writer, format string) error {
	if format == formatJSON {
		if v.Rows == nil {
			v.Rows = []VerdictRow{}
		}
		return printJSON(out, "verdicts", struct {
			Verdicts
			Verdict string `json:"verdict"`
		}{v, v.Verdict()})
	}
	var text strings.Builder
	v.printTable(&text)
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("write verdicts: %w", err)
	}
	return nil
}

func (v Verdicts) printTable(text *strings.Builder) {
	if len(v.Rows) > 0 {
		table := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "NETWORK\tPOLICY\tDIRECTION\tRULE\tVERDICT\tNODE\tPACKETS")
		for _, r := range v.Rows {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", printable(r.Network), printable(r.Policy), printable(r.Direction),
				cell(r.Rule), printable(r.Verdict), printable(r.Node), r.Packets)
		}
		_ = table.Flush() // a strings.Builder takes everything
		fmt.Fprintln(text)
	}
	if len(v.Isolated) > 0 {
		table := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "ISOLATED POD\tDIRECTION\tDROPPED\tONE OF THESE MUST ALLOW IT")
		for _, p := range v.Isolated {
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", printable(p.Pod), p.Direction, p.Packets, listed(p.Policies))
		}
		_ = table.Flush()
		fmt.Fprintln(text)
	}
	fmt.Fprintln(text, v.Verdict())
}
