package diagram

import (
	"cmp"
	"math"
	"slices"
	"unicode/utf8"
)

// Lengths of a picture, in pixels. A letter of a monospaced font is 0.6 times as wide as high.
const (
	letterHeight = 12.0
	letterWidth  = 0.6 * letterHeight
	lineHeight   = 16.0
	padding      = 8.0
	// labelHeight is twice what a label needs: it stands above its line, which is in the middle.
	labelHeight = 2 * lineHeight
	// columnGap is between layers, rowGap between what is in one.
	columnGap, rowGap = 28.0, 14.0
	margin            = 16.0
	// sweeps are how often layers are put in order.
	sweeps = 6
)

// area is where something is.
type area struct{ x, y, width, height float64 }

// placement is where everything is.
type placement struct {
	// boxes are in the graph's order; labels and ways in that of its edges: a way of no points is not drawn.
	boxes, labels []area
	ways          [][]point
	width, height float64
}

type point struct{ x, y float64 }

// vertex is a box, a label, or where an edge passes a layer.
type vertex struct {
	area
	layer int
	// before and after are its neighbours in the layers on either side; rank is its place in its own.
	before, after []int
	rank          float64
	// wish is where it would be among its neighbours.
	wish float64
}

// place puts boxes into layers from the left to the right, so that edges lead to the right as far as they can, labels into layers
// between, and boxes without edges into rows below.
func (g Graph) place() placement {
	boxes := g.numbered()
	out := placement{boxes: make([]area, len(g.Boxes)), labels: make([]area, len(g.Edges)), ways: make([][]point, len(g.Edges))}
	l := layers{layerOf: make([]int, len(g.Boxes))}
	// ends are those of each edge, turned around if it leads to the left.
	ends := make([][2]int, len(g.Edges))
	next := make([][]int, len(g.Boxes))
	joined := make([]bool, len(g.Boxes))
	for i, e := range g.Edges {
		if e.drawn(boxes) {
			ends[i] = [2]int{boxes[e.From], boxes[e.To]}
			next[boxes[e.From]] = append(next[boxes[e.From]], boxes[e.To])
			joined[boxes[e.From]], joined[boxes[e.To]] = true, true
		}
	}
	order := l.assign(next)
	for i, e := range g.Edges {
		if e.drawn(boxes) && order[ends[i][0]] > order[ends[i][1]] {
			ends[i][0], ends[i][1] = ends[i][1], ends[i][0]
		}
	}
	for i, b := range g.Boxes {
		v := vertex{area: area{width: boxWidth(b), height: boxHeight(b)}, layer: 2 * l.layerOf[i]}
		if !joined[i] {
			v.layer = -1
		}
		l.vertices = append(l.vertices, v)
	}
	passes := make([][]int, len(g.Edges))
	labels := make([]int, len(g.Edges))
	for i, e := range g.Edges {
		if !e.drawn(boxes) {
			continue
		}
		passes[i], labels[i] = l.lead(ends[i][0], ends[i][1], e.Label)
	}
	l.order()
	bottom := l.coordinates()
	out.width = l.rows(g, joined, bottom)
	for i := range g.Boxes {
		out.boxes[i] = l.vertices[i].area
		out.height = max(out.height, out.boxes[i].y+out.boxes[i].height)
	}
	for i, e := range g.Edges {
		if !e.drawn(boxes) {
			continue
		}
		out.labels[i] = l.vertices[labels[i]].area
		out.height = max(out.height, out.labels[i].y+out.labels[i].height)
		for _, v := range passes[i] {
			at := l.vertices[v]
			middle := at.y + at.height/2
			if v != ends[i][0] {
				out.ways[i] = append(out.ways[i], point{at.x, middle})
			}
			if v != ends[i][1] {
				out.ways[i] = append(out.ways[i], point{at.x + at.width, middle})
			}
		}
		if ends[i][0] != boxes[e.From] {
			slices.Reverse(out.ways[i])
		}
	}
	out.width, out.height = out.width+margin, out.height+margin
	return out
}

func boxWidth(b Box) float64 {
	letters := 0
	for _, line := range b.Lines {
		letters = max(letters, utf8.RuneCountInString(line))
	}
	return float64(letters)*letterWidth + 2*padding
}

func boxHeight(b Box) float64 { return float64(max(1, len(b.Lines)))*lineHeight + padding }

// layers are where everything that has an edge is placed.
type layers struct {
	layerOf  []int
	vertices []vertex
	columns  [][]int
}

// assign gives each box a layer, beyond those of all boxes that lead to it, and returns an order in which no edge leads back, but
// for those that close a circle.
func (l *layers) assign(next [][]int) []int {
	state := make([]int8, len(next))
	order := make([]int, len(next))
	var done []int
	// Boxes may be many in a row: no recursion.
	type frame struct{ box, edge int }
	for start := range next {
		if state[start] != 0 {
			continue
		}
		stack := []frame{{start, 0}}
		state[start] = 1
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.edge == len(next[top.box]) {
				state[top.box] = 2
				done = append(done, top.box)
				stack = stack[:len(stack)-1]
				continue
			}
			to := next[top.box][top.edge]
			top.edge++
			if state[to] == 0 {
				state[to] = 1
				stack = append(stack, frame{to, 0})
			}
		}
	}
	slices.Reverse(done)
	for i, box := range done {
		order[box] = i
	}
	// An edge that closes a circle is turned around.
	right := make([][]int, len(next))
	for box, list := range next {
		for _, to := range list {
			if order[box] > order[to] {
				right[to] = append(right[to], box)
			} else {
				right[box] = append(right[box], to)
			}
		}
	}
	for _, box := range done {
		for _, to := range right[box] {
			l.layerOf[to] = max(l.layerOf[to], l.layerOf[box]+1)
		}
	}
	return order
}

// lead makes the vertices of an edge in the layers between two boxes: the label is in the first.
func (l *layers) lead(from, to int, label string) (passes []int, labelled int) {
	passes = []int{from}
	first, last := l.vertices[from].layer, l.vertices[to].layer
	for layer := first + 1; layer < last; layer++ {
		v := vertex{layer: layer, area: area{height: rowGap / 2}}
		if layer == first+1 {
			v.width, v.height = float64(utf8.RuneCountInString(label))*letterWidth, labelHeight
			labelled = len(l.vertices)
		}
		before := passes[len(passes)-1]
		v.before = []int{before}
		l.vertices[before].after = append(l.vertices[before].after, len(l.vertices))
		passes = append(passes, len(l.vertices))
		l.vertices = append(l.vertices, v)
	}
	before := passes[len(passes)-1]
	l.vertices[before].after = append(l.vertices[before].after, to)
	l.vertices[to].before = append(l.vertices[to].before, before)
	return append(passes, to), labelled
}

// order puts each layer in the order of what its vertices lead to in the layer beside it.
func (l *layers) order() {
	for i, v := range l.vertices {
		for v.layer >= len(l.columns) {
			l.columns = append(l.columns, nil)
		}
		if v.layer >= 0 {
			l.columns[v.layer] = append(l.columns[v.layer], i)
		}
	}
	for _, column := range l.columns {
		l.rank(column)
	}
	for sweep := range sweeps {
		for i := range l.columns {
			neighbours := func(v vertex) []int { return v.before }
			if sweep%2 == 1 {
				i, neighbours = len(l.columns)-1-i, func(v vertex) []int { return v.after }
			}
			column := l.columns[i]
			for _, v := range column {
				l.vertices[v].wish = l.vertices[v].rank
				if beside := neighbours(l.vertices[v]); len(beside) > 0 {
					sum := 0.0
					for _, b := range beside {
						sum += l.vertices[b].rank
					}
					l.vertices[v].wish = sum / float64(len(beside))
				}
			}
			slices.SortStableFunc(column, func(a, b int) int { return cmp.Compare(l.vertices[a].wish, l.vertices[b].wish) })
			l.rank(column)
		}
	}
}

// rank gives the vertices of a column their places, from 0 to 1.
func (l *layers) rank(column []int) {
	for i, v := range column {
		l.vertices[v].rank = (float64(i) + 0.5) / float64(len(column))
	}
}

// coordinates gives every vertex its area, each layer in the middle of the picture's height, and returns where the lowest ends.
func (l *layers) coordinates() float64 {
	heights := make([]float64, len(l.columns))
	highest := 0.0
	for i, column := range l.columns {
		for _, v := range column {
			heights[i] += l.vertices[v].height + rowGap
		}
		highest = max(highest, heights[i])
	}
	x := margin
	for i, column := range l.columns {
		width := 0.0
		for _, v := range column {
			width = max(width, l.vertices[v].width)
		}
		y := margin + (highest-heights[i])/2
		for _, v := range column {
			at := &l.vertices[v]
			at.x, at.y = x+(width-at.width)/2, y
			y += at.height + rowGap
		}
		x += width + columnGap
	}
	return margin + highest
}

// rows puts boxes without edges below, about as wide as high, and returns the width of all.
func (l *layers) rows(g Graph, joined []bool, top float64) float64 {
	width, area := 0.0, 0.0
	for i := range g.Boxes {
		v := l.vertices[i]
		if joined[i] {
			width = max(width, v.x+v.width)
		} else {
			area += (v.width + columnGap) * (v.height + rowGap)
		}
	}
	limit := max(width, margin+1.5*math.Sqrt(area))
	x, y, lowest := margin, top, 0.0
	for i := range g.Boxes {
		if joined[i] {
			continue
		}
		v := &l.vertices[i]
		if x > margin && x+v.width > limit {
			x, y, lowest = margin, y+lowest+rowGap, 0
		}
		v.x, v.y = x, y
		x += v.width + columnGap
		lowest = max(lowest, v.height)
		width = max(width, v.x+v.width)
	}
	return width
}
