// Package diagram writes boxes and arrows between them as DOT and as Mermaid. The programs that read these place the boxes.
//
// What must stay true: the same graph gives the same bytes, and no text of a box or an arrow ends its quotes.
package diagram

import (
	"fmt"
	"strings"
)

// Graph is what is drawn.
type Graph struct {
	// Boxes are written in this order, group by group.
	Boxes []Box
	Edges []Edge
}

// Box has lines of text.
type Box struct {
	// ID is what edges name it by; each box has another.
	ID string
	// Group is whose it is; empty: nobody's.
	Group string
	// Lines are its text. The first is its title.
	Lines []string
	// Faint: it is not what the picture is about.
	Faint bool
}

// Edge is an arrow.
type Edge struct {
	// From and To are boxes' IDs. One that leads to no box is not drawn.
	From, To string
	Label    string
	// Both: it points both ways. Dashed: it is not so yet.
	Both, Dashed bool
}

// numbered are the numbers of boxes, by their IDs.
func (g Graph) numbered() map[string]int {
	out := make(map[string]int, len(g.Boxes))
	for i, b := range g.Boxes {
		out[b.ID] = i
	}
	return out
}

// groups are those that boxes have, in the order of these.
func (g Graph) groups() (out []string) {
	seen := map[string]bool{}
	for _, b := range g.Boxes {
		if !seen[b.Group] {
			seen[b.Group] = true
			out = append(out, b.Group)
		}
	}
	return out
}

// Dot is the graph in the language of Graphviz.
func (g Graph) Dot() string {
	quote := func(text string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
	}
	var text strings.Builder
	text.WriteString(
		"digraph atoll {\n  rankdir=LR\n  node [shape=box fontname=monospace fontsize=10]\n  edge [fontname=monospace fontsize=9]\n")
	for i, group := range g.groups() {
		indent := "  "
		if group != "" {
			fmt.Fprintf(&text, "  subgraph cluster_%d {\n    label=%s\n", i, quote(group))
			indent = "    "
		}
		for _, b := range g.Boxes {
			if b.Group == group {
				style := ""
				if b.Faint {
					style = " style=dotted"
				}
				fmt.Fprintf(&text, "%s%s [label=%s%s]\n", indent, quote(b.ID), quote(strings.Join(b.Lines, "\n")), style)
			}
		}
		if group != "" {
			text.WriteString("  }\n")
		}
	}
	boxes := g.numbered()
	for _, e := range g.Edges {
		if !e.drawn(boxes) {
			continue
		}
		style := ""
		if e.Both {
			style += " dir=both"
		}
		if e.Dashed {
			style += " style=dashed"
		}
		fmt.Fprintf(&text, "  %s -> %s [label=%s%s]\n", quote(e.From), quote(e.To), quote(e.Label), style)
	}
	text.WriteString("}\n")
	return text.String()
}

func (e Edge) drawn(boxes map[string]int) bool {
	_, from := boxes[e.From]
	_, to := boxes[e.To]
	return from && to && e.From != e.To
}

// Mermaid is the graph as a Mermaid flowchart.
func (g Graph) Mermaid() string {
	quote := func(lines ...string) string {
		escape := strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;")
		for i, line := range lines {
			lines[i] = escape.Replace(line)
		}
		return `"` + strings.Join(lines, "<br/>") + `"`
	}
	boxes := g.numbered()
	var text strings.Builder
	text.WriteString("flowchart LR\n")
	for i, group := range g.groups() {
		indent := "  "
		if group != "" {
			fmt.Fprintf(&text, "  subgraph g%d [%s]\n", i, quote(group))
			indent = "    "
		}
		for _, b := range g.Boxes {
			if b.Group == group {
				fmt.Fprintf(&text, "%sn%d[%s]\n", indent, boxes[b.ID], quote(append([]string(nil), b.Lines...)...))
			}
		}
		if group != "" {
			text.WriteString("  end\n")
		}
	}
	for _, e := range g.Edges {
		if !e.drawn(boxes) {
			continue
		}
		arrow := "-->"
		if e.Dashed {
			arrow = "-.->"
		}
		if e.Both {
			arrow = "<" + arrow
		}
		label := ""
		if e.Label != "" {
			label = "|" + quote(e.Label) + "|"
		}
		fmt.Fprintf(&text, "  n%d %s%s n%d\n", boxes[e.From], arrow, label, boxes[e.To])
	}
	return text.String()
}
