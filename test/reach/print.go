package reach

import (
	"fmt"
	"io"
	"strings"
)

// Failures counts the answers that are not as expected.
func Failures(rows []Row) int {
	n := 0
	for _, r := range rows {
		for _, a := range r.Answers {
			if !a.OK() {
				n++
			}
		}
	}
	return n
}

// Print writes one line per question and one column per subject; an answer that is not as expected is followed by what
// was. The last line is the verdict.
func Print(w io.Writer, subjects []Subject, rows []Row) error {
	header := []string{"from a pod of"}
	for _, s := range subjects {
		header = append(header, s.Namespace)
	}
	lines := [][]string{header}
	total := 0
	for _, r := range rows {
		line := []string{r.Question}
		for _, a := range r.Answers {
			total++
			cell := a.Got
			if !a.OK() {
				cell += " * want " + a.Want
			}
			line = append(line, cell)
		}
		lines = append(lines, line)
	}
	width := make([]int, len(header))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], len(cell))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			fmt.Fprintf(&text, "  %-*s", width[i], cell)
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
	fmt.Fprintf(&b, "\n%d of %d answers as expected\n", total-Failures(rows), total)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print answers: %w", err)
	}
	return nil
}
