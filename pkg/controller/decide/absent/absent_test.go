package absent

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// around is what Nodes are told of besides, and the time.
type around struct {
	pods  map[string]bool
	lacks bool
	now   time.Time
}

// On implements Pods.
func (a *around) On(node string) bool { return a.pods[node] }

// Lacks implements Present.
func (a *around) Lacks() bool { return a.lacks }

// TestAListedNodeIsThere: whatever happens to Nodes, to pods and to the list of nodes that are shut out, and whenever, all others
// see a Node that is listed as it is listed. One that is not listed they see as gone, or not at all: not when it is shut out, has
// no pods, or has gone for too long.
func TestAListedNodeIsThere(t *testing.T) {
	t.Parallel()
	names := []string{"n1", "n2", "n3"}
	rapid.Check(t, func(t *rapid.T) {
		a := &around{pods: map[string]bool{}, now: time.Unix(1000, 0)}
		nodes := New("default", a, a)
		listed, seen, went := map[string]*model.Node{}, map[string]*model.Node{}, map[string]time.Time{}
		var out []string
		some := func(what string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, len(names), rapid.ID).Draw(t, what)
		}
		for step := range rapid.IntRange(1, 20).Draw(t, "steps") {
			a.now = a.now.Add(rapid.SampledFrom([]time.Duration{0, 0, time.Second, model.KeepNode / 2, model.KeepNode}).Draw(t, "passes"))
			a.lacks = rapid.IntRange(0, 9).Draw(t, "lacks") == 0
			for _, name := range names {
				a.pods[name] = rapid.IntRange(0, 3).Draw(t, "pods") > 0
			}
			c := model.Changes{Nodes: map[string]*model.Node{}}
			for _, name := range some("set") {
				// Two may have one machine's address.
				address := netip.AddrFrom4([4]byte{192, 0, 2, byte(rapid.IntRange(1, 4).Draw(t, "address"))})
				listed[name] = &model.Node{Name: name, UID: fmt.Sprint(name, step), Addresses: []netip.Addr{address}}
				c.Nodes[name] = listed[name]
			}
			for _, name := range some("goes") {
				if c.Nodes[name] != nil {
					continue
				}
				if c.Nodes[name] = nil; listed[name] != nil {
					went[name] = a.now
				}
				delete(listed, name)
			}
			if rapid.Bool().Draw(t, "list") {
				out = some("shut out")
				c.ShutOut = map[string]*model.ShutOut{"list": {Nodes: out}}
			}
			nodes.Turn(a.now)
			for name, node := range nodes.Take(c) {
				if seen[name] = node; node == nil {
					delete(seen, name)
				}
			}
			for _, name := range names {
				switch have := seen[name]; {
				case listed[name] != nil && have != listed[name]:
					t.Fatalf("step %d: Node %s is listed, and is seen as %+v", step, name, have)
				case listed[name] != nil || have == nil:
				case !have.Gone:
					t.Fatalf("step %d: Node %s is not listed, and is seen as %+v", step, name, have)
				case slices.Contains(out, name), !a.pods[name], a.lacks, a.now.Sub(went[name]) >= model.KeepNode:
					t.Fatalf("step %d: Node %s is kept: shut out are %v, pods are on %v", step, name, out, slices.Sorted(maps.Keys(a.pods)))
				}
			}
		}
	})
}
