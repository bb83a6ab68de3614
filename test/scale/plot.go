package main

import (
	"bytes"
	"fmt"
	"math"
)

// plot draws rates and times against the ports that were there, as an SVG image.
func (r results) plot() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", plotWidth,
		plotHeight)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&out, `<text x="%d" y="26" font-size="16">%d pods in %d Networks of the same addresses</text>`+"\n", plotLeft, r.Pods,
		r.Networks)

	fill := curve{name: "while filling", colour: "#8ab4d8"}
	burst := curve{name: fmt.Sprintf("burst of %d (middle of %d)", r.BurstOf, bursts), colour: "#1b5e9b", dots: true}
	p50 := curve{name: "p50", colour: "#2e7d32", dots: true}
	p99 := curve{name: "p99", colour: "#b3541e", dots: true}
	for _, p := range r.Fill {
		fill.add(p.Ports, p.PodsPerSecond)
	}
	for _, s := range r.Sizes {
		burst.add(s.Ports, s.burst().PodsPerSecond)
		p50.add(s.Ports, s.Paced.P50)
		p99.add(s.Ports, s.Paced.P99)
	}
	right := roundUp(float64(r.Pods))
	panel{top: 50, title: "pods per second, object to row", right: right, curves: []curve{fill, burst}}.draw(&out)
	panel{
		top: 50 + panelHeight + 100, title: fmt.Sprintf("milliseconds from object to row, at %d pods per second", perSecond), right: right,
		curves: []curve{p50, p99},
	}.draw(&out)
	fmt.Fprintf(&out, `<text x="%d" y="%d" text-anchor="middle">ports present</text>`+"\n", plotLeft+panelWidth/2, plotHeight-12)
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// Measures of the image, in its own units.
const (
	plotWidth, plotHeight   = 760, 680
	plotLeft                = 70
	panelWidth, panelHeight = 640, 210
	ticks                   = 5
)

// curve is a series of points.
type curve struct {
	name, colour string
	dots         bool
	x, y         []float64
}

func (c *curve) add(ports int, value float64) {
	c.x, c.y = append(c.x, float64(ports)), append(c.y, value)
}

// panel is one diagram; both its axes begin at 0.
type panel struct {
	top    int
	title  string
	right  float64
	curves []curve
}

// bottom is where the horizontal axis is; title and legend are above.
func (p panel) bottom() int { return p.top + 50 + panelHeight }

func (p panel) draw(out *bytes.Buffer) {
	high := 0.0
	for _, c := range p.curves {
		for _, y := range c.y {
			high = max(high, y)
		}
	}
	high = roundUp(high)
	x := func(v float64) float64 { return plotLeft + v/p.right*panelWidth }
	y := func(v float64) float64 { return float64(p.bottom()) - v/high*panelHeight }
	fmt.Fprintf(out, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", plotLeft, p.top+10, p.title)
	for i := range ticks + 1 {
		v := high * float64(i) / ticks
		fmt.Fprintf(out, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#dddddd"/>`+"\n", plotLeft, plotLeft+panelWidth, y(v), y(v))
		fmt.Fprintf(out, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", plotLeft-8, y(v)+4, number(v))
		v = p.right * float64(i) / ticks
		fmt.Fprintf(out, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x(v), p.bottom()+18, number(v))
	}
	for i, c := range p.curves {
		var points bytes.Buffer
		for j := range c.x {
			fmt.Fprintf(&points, "%.1f,%.1f ", x(c.x[j]), y(c.y[j]))
			if c.dots {
				fmt.Fprintf(out, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`+"\n", x(c.x[j]), y(c.y[j]), c.colour)
			}
		}
		fmt.Fprintf(out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", points.String(), c.colour)
		at := plotLeft + 220*i
		fmt.Fprintf(out, `<rect x="%d" y="%d" width="14" height="4" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			at, p.top+26, c.colour, at+20, p.top+32, c.name)
	}
}

// roundUp is the next larger of 1, 2, 2.5, 5 and 10 times a power of ten.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 2.5, 5} {
		if v <= step*power {
			return step * power
		}
	}
	return 10 * power
}

// number is short for people.
func number(v float64) string {
	if v >= 10000 {
		return fmt.Sprintf("%.4g,%03d", math.Floor(v/1000), int(v)%1000)
	}
	return fmt.Sprintf("%.4g", v)
}
