package ui

import (
	"fmt"
	"math"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// Sizes of boxes, and the room between them, in pixels.
const (
	islandWidth, islandHeight = 170, 64
	partWidth, partHeight     = 190, 46
	dotWidth, dotHeight       = 130, 36
	gap, wideGap              = 16, 70
	// frame is the room that a box leaves around what is in it, and head what its name takes.
	frame, head = 18, 22
	// perLine is how many parts of a Network, and dotsPerLine how many pods, stand in a line.
	perLine, dotsPerLine = 3, 4
)

// block is boxes with places in a rectangle of their own, from 0, 0.
type block struct {
	nodes []node
	w, h  float64
	// room is what it leaves to the next, for lines that lead to it.
	room float64
}

// single is a block of one box.
func single(n node) block {
	n.X, n.Y = n.W/2, n.H/2
	if n.W == 0 {
		n.W, n.H = islandWidth, islandHeight
		n.X, n.Y = n.W/2, n.H/2
	}
	return block{nodes: []node{n}, w: n.W, h: n.H, room: wideGap}
}

// move is the block at another place.
func (b block) move(x, y float64) []node {
	out := slices.Clone(b.nodes)
	for i := range out {
		out[i].X, out[i].Y = out[i].X+x, out[i].Y+y
	}
	return out
}

// around puts a block into a box.
func (b block) around(n node) block {
	out := block{nodes: b.move(frame, frame+head), w: max(b.w, islandWidth) + 2*frame, h: b.h + 2*frame + head, room: wideGap}
	n.W, n.H, n.X, n.Y = out.w, out.h, out.w/2, out.h/2
	out.nodes = append([]node{n}, out.nodes...)
	return out
}

// packed puts blocks beside and below one another, about as wide as a screen is to its height.
func packed(blocks []block) block {
	area, widest := 0.0, 0.0
	for _, b := range blocks {
		area += (b.w + b.room) * (b.h + b.room)
		widest = max(widest, b.w)
	}
	const screen = 2.2
	limit := max(widest, math.Sqrt(area*screen))
	var out block
	x, y, line := 0.0, 0.0, 0.0
	for _, b := range blocks {
		if x > 0 && x+b.w > limit {
			x, y, line = 0, y+line, 0
		}
		out.nodes = append(out.nodes, b.move(x, y)...)
		out.w, out.h = max(out.w, x+b.w), max(out.h, y+b.h)
		x, line = x+b.w+b.room, max(line, b.h+b.room)
	}
	out.room = wideGap
	return out
}

// lines puts boxes of one size below one another, so many in each line.
func lines(nodes []node, each int) block {
	var out block
	for i, n := range nodes {
		column, row := float64(i%each), float64(i/each)
		n.X, n.Y = column*(n.W+gap)+n.W/2, row*(n.H+gap)+n.H/2
		out.nodes = append(out.nodes, n)
		out.w, out.h = max(out.w, n.X+n.W/2), max(out.h, n.Y+n.H/2)
	}
	return out
}

// stacked puts blocks below one another, each in the middle.
func stacked(blocks ...block) block {
	var out block
	for _, b := range blocks {
		out.w = max(out.w, b.w)
	}
	for _, b := range blocks {
		if len(b.nodes) == 0 {
			continue
		}
		if out.h > 0 {
			out.h += 2 * gap
		}
		out.nodes = append(out.nodes, b.move((out.w-b.w)/2, out.h)...)
		out.h += b.h
	}
	return out
}

// network is a Network: a box, or what is in it.
func (p *picture) network(t api.Topology, parent string, in *inside) block {
	s := t.Status
	label := snapshot.Printable(t.Name)
	n := node{
		ID: "network/" + t.Name, Kind: "network", Parent: parent, Link: pathOf("network", t.Name), State: stateClass(s.Phase), W: islandWidth,
		H:     islandHeight,
		Label: fmt.Sprintf("%s\n%s, %s\n%s", label, s.Type, s.Phase, model.Count(int(s.Pods), "pod")),
	}
	n.Says = "Network " + strings.ReplaceAll(n.Label, "\n", ", ")
	if in == nil {
		return single(n)
	}
	n.Kind, n.Label = "island", fmt.Sprintf("%s (%s, %s): %s", label, s.Type, s.Phase, model.Count(int(s.Pods), "pod"))
	return p.inside(t, n.ID, in).around(n)
}

// morePods is the name of the box of pods that have none of their own; no pod is called so.
const morePods = " more"

// inside is what an open Network is made of: its router, what hangs on it, and pods by their subnets.
func (p *picture) inside(t api.Topology, id string, in *inside) block {
	s := t.Status
	part := func(kind, name, label, says, link string) node {
		p.parts[id+"/"+kind+"/"+name] = true
		return node{
			ID: id + "/" + kind + "/" + name, Kind: kind, Parent: id, Label: snapshot.Printable(label), Says: snapshot.Printable(says), Link: link,
			W: partWidth, H: partHeight,
		}
	}
	wire := func(from, to node) {
		p.Edges = append(p.Edges, edge{ID: "wire/" + from.ID + "/" + to.ID, Kind: "wire", From: from.ID, To: to.ID})
	}
	page := pathOf("network", t.Name)
	router := part("router", s.Router, "router "+s.Router, "router "+s.Router, page)
	p.routers[t.Name] = router.ID
	var subnets, others, dots []node
	subnetOf := map[string]node{}
	for _, subnet := range s.Subnets {
		n := part("subnet", subnet.Name, fmt.Sprintf("switch %s\n%s", subnet.Switch, strings.Join(subnet.CIDRs, " ")), "", page+"/pods")
		// A line's end is no sign that somebody wrote.
		n.Label = snapshot.Printable("switch "+subnet.Switch) + "\n" + snapshot.Printable(strings.Join(subnet.CIDRs, " "))
		n.Says = fmt.Sprintf("switch %s, %s, %s", snapshot.Printable(subnet.Switch), strings.Join(subnet.CIDRs, " "),
			model.Count(int(subnet.Pods), "pod"))
		subnets = append(subnets, n)
		subnetOf[subnet.Name] = n
		wire(router, n)
	}
	if len(s.ServiceCIDRs) > 0 {
		n := part("services", "cidrs", "Services "+strings.Join(s.ServiceCIDRs, " "), "Services of "+strings.Join(s.ServiceCIDRs, " "), page)
		others = append(others, n)
		wire(router, n)
	}
	for _, g := range s.Gateways {
		text := strings.TrimSpace("Gateway " + g.Name + " " + strings.Join(g.Addresses, " "))
		n := part("gateway", g.Name, text, text, page)
		others = append(others, n)
		wire(router, n)
	}
	for _, policy := range in.policies {
		others = append(others, part("policy", policy, policy, "policy "+policy, page))
	}
	for _, pod := range in.pods {
		name := pod.Namespace + "/" + pod.Name
		n := part("pod", name, "", "", pathOf("pod", name))
		n.Label = snapshot.Printable(name) + "\n" + strings.Join(pod.Status.Addresses, " ")
		n.Says = fmt.Sprintf("pod %s, %s, on node %s", name, strings.Join(pod.Status.Addresses, " "), pod.Status.Node)
		n.W, n.H = dotWidth, dotHeight
		dots = append(dots, n)
		if subnet, there := subnetOf[pod.Status.Subnet]; there {
			wire(subnet, n)
		}
	}
	if in.morePods > 0 {
		n := part("pod", morePods, fmt.Sprintf("and %d more", in.morePods), fmt.Sprintf("and %d more pods", in.morePods), page+"/pods")
		n.W, n.H = dotWidth, dotHeight
		dots = append(dots, n)
	}
	return stacked(lines(others, perLine), lines([]node{router}, 1), lines(subnets, perLine), lines(dots, dotsPerLine))
}
