package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/matrix"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// The marks of outcomes, and of a path that is not as expected.
const (
	markAnswered = "+"
	markSilent   = "."
	markPartly   = "~"
	markUntried  = "?"
	markDiffers  = "*"
	markSelf     = "self"
)

func mark(o matrix.Outcome) string {
	switch o {
	case matrix.Answered:
		return markAnswered
	case matrix.Silent:
		return markSilent
	case matrix.PartlyAnswered:
		return markPartly
	}
	return markUntried
}

func matrixAnswer(m matrix.Matrix) answered {
	return answered{value: m, table: func(text *strings.Builder, wide bool) { matrixTable(text, m, wide) }}
}

// notes are why paths could not be tried, each once, with its number.
type notes struct {
	numbers map[string]int
	texts   []string
}

func (n *notes) number(text string) string {
	if n.numbers == nil {
		n.numbers = map[string]int{}
	}
	if n.numbers[text] == 0 {
		n.texts = append(n.texts, text)
		n.numbers[text] = len(n.texts)
	}
	return strconv.Itoa(n.numbers[text])
}

// matrixTable has a row for each pod that sends and a column for each that is sent to; wide says in each cell what is expected, too.
func matrixTable(text *strings.Builder, m matrix.Matrix, wide bool) {
	head := []string{"", `FROM \ TO`, "NETWORK", "NODE"}
	if wide {
		head = append(head, "ADDRESSES")
	}
	for i := range m.Pods {
		head = append(head, strconv.Itoa(i+1))
	}
	lines, why := [][]string{head}, notes{}
	next := 0
	for i, from := range m.Pods {
		line := []string{strconv.Itoa(i + 1), from.Name, from.Network, from.Node}
		if wide {
			line = append(line, strings.Join(from.Addresses, " "))
		}
		for j := range m.Pods {
			if i == j {
				line = append(line, markSelf)
				continue
			}
			line = append(line, matrixCell(m.Paths[next], wide, &why))
			next++
		}
		lines = append(lines, line)
	}
	lines[0][0] = " " // An empty cell would be a dash.
	rows(text, lines)
	legend := `
` + markAnswered + ` answered   ` + markSilent + ` not answered   ` + markPartly + ` not by every address   ` + markUntried + `N not tried, see note N   ` + markDiffers + ` not as expected
`
	if wide {
		legend = strings.TrimSuffix(legend, "\n") + "   expected/observed\n"
	}
	text.WriteString(legend)
	for i, note := range why.texts {
		fmt.Fprintf(text, "%d: %s\n", i+1, snapshot.Printable(note))
	}
	differing(text, m)
	for _, l := range m.LeftOut {
		fmt.Fprintf(text, "Left out: %d of %s of Network %s (--pods-per).\n", l.Pods, model.Count(l.All, "pod"), snapshot.Printable(l.Network))
	}
	fmt.Fprintln(text, matrixVerdict(m))
}

// matrixCell is what was seen of a path.
func matrixCell(p matrix.Path, wide bool, why *notes) string {
	cell := mark(p.Observed)
	if wide {
		cell = mark(p.Expected) + "/" + cell
	}
	if p.Differs {
		cell += markDiffers
	}
	if p.Expected == matrix.Untried || p.Observed == matrix.Untried {
		cell += why.number(p.Why)
	}
	return cell
}

// differing says of each path that is not as expected what is expected, what was seen, and what to do.
func differing(text *strings.Builder, m matrix.Matrix) {
	text.WriteByte('\n')
	for _, p := range m.Paths {
		if !p.Differs {
			continue
		}
		observed := string(p.Observed)
		if p.Why != "" {
			observed += " (" + p.Why + ")"
		}
		line := fmt.Sprintf("%s to %s: expected %s, observed %s. Expected is: %s", p.From, p.To, p.Expected, observed, p.Verdict)
		fmt.Fprintf(text, "%s\n  Next: %s\n", snapshot.Printable(line), snapshot.Printable(p.Next))
	}
}

func matrixVerdict(m matrix.Matrix) string {
	what := m.Protocol
	if m.Port != 0 {
		what += fmt.Sprintf(" port %d", m.Port)
	}
	line := fmt.Sprintf("%s between %s, %s: %d as expected, %d not", model.Count(len(m.Paths), "path"), model.Count(len(m.Pods), "pod"), what,
		len(m.Paths)-m.Differing-m.Untried, m.Differing)
	if m.Untried > 0 {
		line += fmt.Sprintf(", %d not tried", m.Untried)
	}
	return line + "."
}
