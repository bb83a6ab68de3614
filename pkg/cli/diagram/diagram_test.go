package diagram

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the golden files anew")

// example has a circle, an edge that passes a layer, names that languages know as their own, and boxes without edges.
func example() Graph {
	return Graph{
		Boxes: []Box{
			{ID: "a", Group: "tenant acme", Lines: []string{"a", `subnet "front" <10.0.0.0/24>`}},
			{ID: "b", Group: "tenant acme", Lines: []string{"b"}},
			{ID: "c", Group: "tenant #1", Lines: []string{"c & more", "10.1.0.0/24", "10.2.0.0/24"}},
			{ID: "d", Lines: []string{`d\n`}, Faint: true},
			{ID: "end", Lines: []string{"end"}},
			{ID: "alone", Lines: []string{"alone"}},
			{ID: "also", Group: "tenant acme", Lines: []string{"also alone"}},
		},
		Edges: []Edge{
			{From: "a", To: "b", Label: "ByFace", Both: true},
			{From: "b", To: "c", Label: "Routed, Waiting", Dashed: true},
			{From: "a", To: "c", Label: "ByFace"},
			{From: "c", To: "a", Label: "Routed"},
			{From: "c", To: "end"},
			{From: "d", To: "b", Label: "ByFace"},
			{From: "a", To: "nowhere"},
			{From: "a", To: "a"},
		},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	g := example()
	for name, got := range map[string]string{
		"example.dot": g.Dot(), "example.mermaid": g.Mermaid(), "example.svg": g.SVG("Example <1>"), "empty.svg": Graph{}.SVG("Nothing"),
	} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s (run with -update when it is meant):\n%s", name, got)
		}
	}
	for _, arrow := range []string{`"a" -> "nowhere"`, `"a" -> "a"`} {
		if strings.Contains(g.Dot(), arrow) {
			t.Errorf("%s is drawn", arrow)
		}
	}
}

// collisions are what lies on something else, is outside of the picture, or holds more text than has room.
func collisions(g Graph, p placement) (out []string) {
	type named struct {
		area
		name string
	}
	var all []named
	for i, b := range g.Boxes {
		all = append(all, named{p.boxes[i], "box " + b.ID})
		for _, line := range b.Lines {
			if float64(utf8.RuneCountInString(line))*letterWidth+2*padding > p.boxes[i].width+0.01 ||
				float64(len(b.Lines))*lineHeight+padding > p.boxes[i].height+0.01 {
				out = append(out, "text of "+b.ID)
			}
		}
	}
	for i, e := range g.Edges {
		if len(p.ways[i]) > 0 && e.Label != "" {
			if float64(utf8.RuneCountInString(e.Label))*letterWidth > p.labels[i].width+0.01 {
				out = append(out, "label of "+e.From)
			}
			all = append(all, named{p.labels[i], fmt.Sprintf("label %d", i)})
		}
	}
	for i, a := range all {
		if a.x < 0 || a.y < 0 || a.x+a.width > p.width || a.y+a.height > p.height {
			out = append(out, a.name+" is outside")
		}
		for _, b := range all[:i] {
			if a.x < b.x+b.width && b.x < a.x+a.width && a.y < b.y+b.height && b.y < a.y+a.height {
				out = append(out, a.name+" on "+b.name)
			}
		}
	}
	return out
}

func randomGraph(r *rand.Rand, boxes, edges int) Graph {
	var g Graph
	for i := range boxes {
		b := Box{ID: fmt.Sprint(i)}
		for range 1 + r.IntN(5) {
			b.Lines = append(b.Lines, strings.Repeat("x", 1+r.IntN(30)))
		}
		g.Boxes = append(g.Boxes, b)
	}
	for range edges {
		g.Edges = append(g.Edges, Edge{
			From: fmt.Sprint(r.IntN(boxes)), To: fmt.Sprint(r.IntN(boxes)), Label: strings.Repeat("l", r.IntN(20)), Both: r.IntN(2) == 0,
		})
	}
	return g
}

// TestNothingLiesOnAnything: boxes and labels of random graphs have room each for itself. That two boxes in one place are
// noticed, is the control.
func TestNothingLiesOnAnything(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		boxes := 1 + r.IntN(40)
		g := randomGraph(r, boxes, r.IntN(2*boxes))
		p := g.place()
		if bad := collisions(g, p); len(bad) > 0 {
			t.Fatalf("graph %d: %s", i, strings.Join(bad, "; "))
		}
	}
	g := example()
	p := g.place()
	p.boxes[1].x, p.boxes[1].y = p.boxes[0].x+1, p.boxes[0].y+1
	p.boxes[2].width = 10
	if bad := strings.Join(collisions(g, p), "; "); !strings.Contains(bad, "box b on box a") || !strings.Contains(bad, "text of c") {
		t.Errorf("what is in the way is not noticed: %s", bad)
	}
}

// TestAnSVGIsXML: whatever names are like.
func TestAnSVGIsXML(t *testing.T) {
	t.Parallel()
	d := xml.NewDecoder(strings.NewReader(example().SVG(`a "title" & <more>`)))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestAThousandBoxes: a picture of a thousand, of which each is led to some of the first twenty, is there at once.
func TestAThousandBoxes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	g := randomGraph(r, 1000, 0)
	for i := range 1000 {
		g.Edges = append(g.Edges, Edge{From: fmt.Sprint(i), To: fmt.Sprint(r.IntN(20)), Label: "ByFace"})
	}
	took := time.Hour
	for range 3 {
		began := time.Now()
		text := g.SVG("many")
		took = min(took, time.Since(began))
		t.Logf("%d bytes in %s", len(text), took)
	}
	if took > time.Second {
		t.Errorf("it took %s", took)
	}
}
