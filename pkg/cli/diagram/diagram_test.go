package diagram

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// example has a circle, names that languages know as their own, edges without ends, and boxes without edges.
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
	for name, got := range map[string]string{"example.dot": g.Dot(), "example.mermaid": g.Mermaid()} {
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
