package tenants

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Table is what pods found: a row for each pod that asked, a column for each question.
type Table struct {
	// Columns are the heads of all columns; the first one names the table.
	Columns []string
	// Rows have a cell for each column, in the order of the pods.
	Rows [][]string
}

// Read finds the table of a page in Markdown whose first column has that head.
func Read(page, head string) (Table, error) {
	var out Table
	for line := range strings.Lines(page) {
		cells, is := cellsOf(line)
		switch {
		case !is && len(out.Columns) > 0:
			return out, nil
		case !is:
		case len(out.Columns) == 0 && cells[0] == head:
			out.Columns = cells
		case len(out.Columns) > 0 && strings.Trim(cells[0], "-") != "":
			if len(cells) != len(out.Columns) {
				return Table{}, fmt.Errorf("read table %q: row %q has %d cells, want %d", head, cells[0], len(cells), len(out.Columns))
			}
			out.Rows = append(out.Rows, cells)
		}
	}
	if len(out.Rows) == 0 {
		return Table{}, fmt.Errorf("read table %q: there is none", head)
	}
	return out, nil
}

// cellsOf are the cells of a line of a table.
func cellsOf(line string) ([]string, bool) {
	line = strings.TrimSpace(line)
	inner, begins := strings.CutPrefix(line, "|")
	inner, ends := strings.CutSuffix(inner, "|")
	if !begins || !ends {
		return nil, false
	}
	cells := strings.Split(inner, "|")
	for i := range cells {
		cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
	}
	return cells, true
}

// Compare says where a table is not as it should be, a line for each cell.
func (t Table) Compare(want Table) []string {
	if !slices.Equal(t.Columns, want.Columns) {
		return []string{fmt.Sprintf("the columns are %q, want %q", t.Columns, want.Columns)}
	}
	if len(t.Rows) != len(want.Rows) {
		return []string{fmt.Sprintf("%s: %d rows, want %d", t.Columns[0], len(t.Rows), len(want.Rows))}
	}
	var out []string
	for i, row := range t.Rows {
		for j, cell := range row {
			if cell != want.Rows[i][j] {
				out = append(out, fmt.Sprintf("%s, %s: %s, want %s", row[0], t.Columns[j], cell, want.Rows[i][j]))
			}
		}
	}
	return out
}

// Cells counts what was asked.
func (t Table) Cells() int { return len(t.Rows) * (len(t.Columns) - 1) }

// Print writes a table as the page has it, with its columns aligned.
func (t Table) Print(to io.Writer) error {
	lines := append([][]string{t.Columns, nil}, t.Rows...)
	width := make([]int, len(t.Columns))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], len(cell))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		for i := range t.Columns {
			if line == nil {
				b.WriteString("|" + strings.Repeat("-", width[i]+2))
				continue
			}
			fmt.Fprintf(&b, "| %-*s ", width[i], line[i])
		}
		b.WriteString("|\n")
	}
	if _, err := io.WriteString(to, b.String()); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	return nil
}
