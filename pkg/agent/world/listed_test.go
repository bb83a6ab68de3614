package world

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestAListedNodeCounts: whatever has happened to Nodes and to the list of nodes that are shut out, and whenever, a Node that is
// listed counts, and will go on to.
func TestAListedNodeCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, now := New("n1"), time.Unix(1000, 0)
		listed := map[string]bool{}
		var out []string
		name := func() string { return rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node") }
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"comes", "comes", "goes", "shut out", "read", "time"}).Draw(t, "what") {
			case "comes":
				n := name()
				w.SetNode(&model.Node{Name: n})
				listed[n] = true
			case "goes":
				n := name()
				w.DropNode(n, now)
				delete(listed, n)
			case "shut out":
				out = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"n1", "n2", "n3"}), 0, 3, rapid.ID).Draw(t, "list")
				w.SetShutOut(&model.ShutOut{Nodes: out})
			case "read":
				w.ShutOutRead()
			case "time":
				now = now.Add(rapid.SampledFrom([]time.Duration{time.Second, model.KeepNode / 2, model.KeepNode}).Draw(t, "passes"))
				w.Expire(now)
			}
			for n := range listed {
				if _, gone := w.gone[n]; w.nodes[n] == nil || gone {
					t.Fatalf("Node %s is listed; it is known: %t, and counts as gone: %t; shut out are %v", n, w.nodes[n] != nil, gone, out)
				}
			}
			if listed["n1"] && w.unregistered {
				t.Fatal("the node's own Node is listed, and counts as gone")
			}
		}
	})
}
