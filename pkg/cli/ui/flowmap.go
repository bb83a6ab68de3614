package ui

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"net/http"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

const (
	// maxStrokes is how many lines of flows the map has: those that were dropped, and those with the most connections.
	maxStrokes = 400
	// podPlace is in the names of boxes that are pods.
	podPlace = "/pod/"
	// endPlace begins the names of boxes that are no Network's.
	endPlace = "end/"
)

// overlay is what the map draws over itself: the flows of a window.
type overlay struct {
	Nodes []node `json:"nodes"`
	Edges []edge `json:"edges"`
	// Ends is the window's address, Words say when it is, Said what a screen reader says of it.
	Ends  string `json:"ends"`
	Words string `json:"words"`
	Said  string `json:"said"`
	// Why says why there are none, Note what is missing.
	Why  string `json:"why,omitempty"`
	Note string `json:"note,omitempty"`
}

// graphFlows serves the flows of a window for a picture that was asked for with the same words.
func (s *Server) graphFlows(w http.ResponseWriter, r *http.Request) {
	when, err := windowAt(r.URL.Query(), s.now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := overlay{Nodes: []node{}, Edges: []edge{}, Ends: when.at(), Words: when.words(s.zone)}
	all, err := s.flowsIn(r.Context(), when)
	if err != nil {
		out.Why = snapshot.Printable(err.Error())
		out.Said = out.Words + ": " + out.Why
	} else {
		p, err := s.pictured(r)
		if err != nil {
			v := problem(view{Title: "The map"}, err)
			http.Error(w, v.Said, v.status)
			return
		}
		out.Note = all.missing()
		out.draw(p, all)
	}
	writeJSON(w, out)
}

func writeJSON(w http.ResponseWriter, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		http.Error(w, fmt.Sprintf("make the map: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // who has gone does not read it
}

// draw adds what goes between boxes of a picture.
func (o *overlay) draw(p picture, all seen) {
	talks := talksOf(all.flows)
	if p.ofPods {
		o.Nodes = append(o.Nodes, p.dots(talks)...)
	}
	strokes := strokesOf(talks, p.placeOf)
	o.Said = saidOf(o.Words, strokes)
	if len(strokes) > maxStrokes {
		o.Said += fmt.Sprintf("; the map has the first %d of %d lines", maxStrokes, len(strokes))
		strokes = strokes[:maxStrokes]
	}
	names := map[string]string{}
	for _, n := range slices.Concat(p.Nodes, o.Nodes) {
		names[n.ID], _, _ = strings.Cut(n.Says, ",")
	}
	for i, end := range []string{endOutside, endServices, endNodes, endOthers} {
		n := node{ID: endPlace + end, Kind: "end", Label: end, Says: end, W: islandWidth, H: islandHeight, Link: flowsURL(all.at(), "")}
		if end == endOthers {
			n.Label, n.Says = "others\nnot known by name", "others, who are not known by name"
		}
		if end == endOthers && p.morePods > 0 {
			n.Label, n.Says = fmt.Sprintf("others\nand %d more pods", p.morePods), fmt.Sprintf("others, and %d more pods", p.morePods)
		}
		// They stand below all that there is, each where it always stands.
		n.X, n.Y = float64(i)*(islandWidth+wideGap)+islandWidth/2, p.high+wideGap+islandHeight/2
		used := false
		for _, s := range strokes {
			used = used || s.From == n.ID || s.To == n.ID
		}
		if used {
			o.Nodes = append(o.Nodes, n)
		}
		names[n.ID] = end
	}
	for _, s := range strokes {
		rate := all.rate(s.Connections)
		e := edge{
			ID: strings.Join([]string{"flow", s.From, s.To, s.Verdict()}, " "), Kind: "flow", From: s.From, To: s.To,
			Label: rate + " " + s.Verdict() + "\n" + s.By(), Link: s.url(all.at()), State: "good",
			Says: fmt.Sprintf("from %s to %s: %s %s by %s", names[s.From], names[s.To], rate, s.Verdict(), s.By()),
			// Twice as much is one step thicker.
			Size: min(1+bits.Len64(s.Connections)/2, 7),
		}
		if s.Dropped {
			e.State = "bad"
		}
		o.Edges = append(o.Edges, e)
	}
}

// placeOf is the box of the picture in which an end of a flow is.
func (p *picture) placeOf(end party) string {
	if own := endPlace + strings.TrimPrefix(podPlace, "/") + end.Name; p.ofPods && end.Kind == api.FlowPod && p.parts[own] {
		return own
	}
	box := p.places[end.Network]
	if end.Network == "" || box == "" {
		if end.Kind == api.FlowPod || end.Kind == api.FlowGateway || end.Kind == api.FlowRouter {
			return endPlace + endOthers
		}
		return endPlace + beyond(end)
	}
	router, open := p.routers[end.Network]
	switch {
	case !open:
		return box
	case end.Kind == api.FlowRouter:
		return router
	}
	// A name of somebody else's place is none here: each box has its Network's.
	for _, inside := range []string{box + podPlace + end.Name, box + "/gateway/" + end.Name, box + podPlace + morePods} {
		if p.parts[inside] && (end.Kind == api.FlowGateway) == strings.HasPrefix(inside, box+"/gateway/") {
			return inside
		}
	}
	return router
}
