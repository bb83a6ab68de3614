package diagram

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// style is for light and dark pages.
const style = `<style>
text{font:12px monospace;fill:#1b1f24}
.title{font-weight:bold}
rect{fill:#f6f8fa;stroke:#57606a}
.faint rect{stroke-dasharray:3 3;fill:none}
path{fill:none;stroke:#57606a}
.dashed{stroke-dasharray:5 4}
marker path{fill:#57606a;stroke:none}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#161b22;stroke:#8b949e}path{stroke:#8b949e}marker path{fill:#8b949e}}
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker></defs>
`

// SVG is a picture of the graph, with a title for whoever hears it read.
func (g Graph) SVG(title string) string {
	p := g.place()
	var text strings.Builder
	fmt.Fprintf(&text,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img">`+"\n<title>%s</title>\n", p.width,
		p.height, p.width, p.height, escaped(title))
	text.WriteString(style)
	for i, e := range g.Edges {
		way := p.ways[i]
		if len(way) == 0 {
			continue
		}
		attributes := ` marker-end="url(#head)"`
		if e.Both {
			attributes += ` marker-start="url(#head)"`
		}
		if e.Dashed {
			attributes += ` class="dashed"`
		}
		fmt.Fprintf(&text, `<path d="M%.1f %.1f`, way[0].x, way[0].y)
		for j := 1; j < len(way); j++ {
			from, to := way[j-1], way[j]
			middle := (from.x + to.x) / 2
			fmt.Fprintf(&text, "C%.1f %.1f %.1f %.1f %.1f %.1f", middle, from.y, middle, to.y, to.x, to.y)
		}
		fmt.Fprintf(&text, `"%s/>`+"\n", attributes)
		if e.Label != "" {
			at := p.labels[i]
			// It stands above the line that passes through the middle of its area.
			fmt.Fprintf(&text, `<text x="%.1f" y="%.1f">%s</text>`+"\n", at.x, at.y+at.height/2-2, escaped(e.Label))
		}
	}
	for i, b := range g.Boxes {
		at := p.boxes[i]
		class := ""
		if b.Faint {
			class = ` class="faint"`
		}
		fmt.Fprintf(&text, `<g%s><rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4"/>`, class, at.x, at.y, at.width, at.height)
		for j, line := range b.Lines {
			class := ""
			if j == 0 {
				class = ` class="title"`
			}
			fmt.Fprintf(&text, `<text%s x="%.1f" y="%.1f">%s</text>`, class, at.x+padding, at.y+padding/2+float64(j+1)*lineHeight-4, escaped(line))
		}
		text.WriteString("</g>\n")
	}
	text.WriteString("</svg>\n")
	return text.String()
}

func escaped(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a strings.Builder takes everything
	return out.String()
}
