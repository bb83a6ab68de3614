package matrix

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// maxListed bounds the failures that are listed in words.
const maxListed = 12

const legend = `
  cell: expected, then what was observed by ICMP, TCP, UDP
    +    must be reached (same Network)        -    must stay apart (another Network)
    ITU  that very pod got it and answered     .    nobody got it, nobody answered
    o    this Network has that address too: its own pod answered, as it should
    >  got it, answer lost      !  showed up in another Network      ?  somebody else has it      *  not as expected
`

// Print writes the matrix, its legend, what failed in words, and the verdict as the last line.
func (m *Matrix) Print(w io.Writer) error {
	var b strings.Builder
	m.table(&b)
	b.WriteString(legend)
	verdict := m.Verdict()
	if len(verdict.Failures) > 0 {
		b.WriteString("\n")
	}
	for i, failure := range verdict.Failures {
		if i == maxListed {
			fmt.Fprintf(&b, "  ... and %d more\n", len(verdict.Failures)-maxListed)
			break
		}
		fmt.Fprintf(&b, "  %s\n", failure)
	}
	fmt.Fprintf(&b, "\n%s%s\n", m.speed(), verdict)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print the matrix: %w", err)
	}
	return nil
}

// table writes one row per source and one column per target, Networks set apart.
func (m *Matrix) table(b *strings.Builder) {
	nameWidth, addressWidth, nodeWidth := len("from \\ to"), len("address"), len("node")
	for _, p := range m.Pods {
		nameWidth = max(nameWidth, len(p.String()))
		addressWidth = max(addressWidth, len(p.Address.String()))
		nodeWidth = max(nodeWidth, len(p.Node))
	}
	line := func(number, name, address, node string, cells []string) {
		var row strings.Builder
		fmt.Fprintf(&row, " %2s  %-*s  %-*s  %-*s ", number, nameWidth, name, addressWidth, address, nodeWidth, node)
		for i, cell := range cells {
			if i > 0 && m.Pods[i].Network != m.Pods[i-1].Network {
				row.WriteString(" |")
			}
			fmt.Fprintf(&row, " %-5s", cell)
		}
		b.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	header := make([]string, len(m.Pods))
	for i := range m.Pods {
		header[i] = fmt.Sprintf("%3d", i+1)
	}
	line("", "from \\ to", "address", "node", header)
	cells := m.cells()
	for i, p := range m.Pods {
		if i > 0 && p.Network != m.Pods[i-1].Network {
			b.WriteString("\n")
		}
		line(fmt.Sprint(i+1), p.String(), p.Address.String(), p.Node, cells[i])
	}
}

// cells are the texts of the table, by From and To.
func (m *Matrix) cells() [][]string {
	cells := make([][]string, len(m.Pods))
	for i := range cells {
		cells[i] = make([]string, len(m.Pods))
		cells[i][i] = "self"
	}
	wrong := map[[2]int]bool{}
	for _, p := range m.Paths {
		cell := &cells[p.From][p.To]
		if *cell == "" {
			*cell = "-"
			if expectReached(m.Pods[p.From], m.Pods[p.To]) {
				*cell = "+"
			}
		}
		*cell += p.mark()
		if !m.AsExpected(p) {
			wrong[[2]int{p.From, p.To}] = true
		}
	}
	for at := range wrong {
		cells[at[0]][at[1]] += "*"
	}
	return cells
}

// mark is the outcome as one character.
func (p Path) mark() string {
	switch p.Outcome {
	case Silent:
		return "."
	case Reached:
		return strings.ToUpper(string(p.Protocol[:1]))
	case Own:
		return "o"
	case Lost:
		return ">"
	case Leaked:
		return "!"
	case Stray:
		return "?"
	}
	return "?"
}

// explain says in words what is wrong with p.
func (m *Matrix) explain(p Path) string {
	from, to := m.Pods[p.From], m.Pods[p.To]
	what := map[Outcome]string{
		Silent:  "nothing came through",
		Reached: "it was reached",
		Own:     "another pod of the Network answered",
		Lost:    "it got the probe, but the answer was lost",
		Leaked:  "it showed up in another Network",
		Stray:   "somebody answered who does not hold the address",
	}[p.Outcome]
	if len(p.Witnesses) > 0 {
		what += " (" + strings.Join(p.Witnesses, ", ") + ")"
	}
	return fmt.Sprintf("%s -> %s %s by %s: %s", from, to, to.Address, strings.ToUpper(string(p.Protocol)), what)
}

// speed is a line with the median time to an answer by protocol; empty when no time was taken.
func (m *Matrix) speed() string {
	var parts []string
	for _, protocol := range protocols {
		if rtt := m.medianRTT(protocol); rtt > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", strings.ToUpper(string(protocol)), rtt.Round(10*time.Microsecond)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "median time to an answer, all probes at once: " + strings.Join(parts, ", ") + "\n"
}

// medianRTT is the median time of an answer by protocol, among paths that were reached.
func (m *Matrix) medianRTT(protocol wire.Protocol) time.Duration {
	var all []time.Duration
	for _, p := range m.Paths {
		if p.Protocol == protocol && p.Outcome == Reached {
			all = append(all, p.RTT)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
