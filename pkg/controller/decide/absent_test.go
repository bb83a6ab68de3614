package decide_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// absence is a world in which Node n1 has two pods, one of Network red and one of the default Network.
type absence struct {
	*world
	pods []model.Pod
	// began is the moment of all that happens before time is moved on.
	began time.Time
}

// absent makes that world, with a range of the default Network.
func absent(home string) *absence {
	a := &absence{
		world: facedWorld("100.64.0.0/10"), pods: []model.Pod{pod("a", "faced", "red"), pod("a", "home", "")}, began: time.Unix(1000, 0),
	}
	a.state.Turn(a.began)
	n := network("default", "pods", home)
	n.Type = model.Flat
	a.setNetwork(n)
	host := node("n1", 1)
	host.Addresses, host.Labels = []netip.Addr{at("192.0.2.11")}, map[string]string{"zone": "one"}
	a.setNode(host)
	a.setNode(node("n2", 2))
	for _, p := range a.pods {
		a.setPod(p)
	}
	a.settle()
	return a
}

// rowsOf are the rows of a database that has what a graph wants.
func rowsOf(g *graph.Graph) func(nb.Table) []nb.Row {
	return func(table nb.Table) (out []nb.Row) {
		for _, ref := range g.Refs() {
			if row, _ := g.Row(ref); ref.Table == table {
				out = append(out, row)
			}
		}
		return out
	}
}

// succeed has another controller begin with the objects that there are, and with the database.
func (a *absence) succeed() {
	left := a.graph
	a.restart("100.64.0.0/10")
	a.state.Turn(a.began)
	a.state.Connected(rowsOf(left))
}

// rows are those of n1, and what is in their places.
func (a *absence) rows() string {
	facts, _ := a.graph.Facts(nb.NodeOwner("n1"))
	g := graph.New()
	g.Set(nb.NodeOwner("n1"), facts)
	return strings.Join(refs(g), "\n")
}

// TestANodeThatIsRegisteredAgainKeepsItsRows: while a Node is away whose pods go on, nobody's rows change, whether a controller
// begins meanwhile or not.
func TestANodeThatIsRegisteredAgainKeepsItsRows(t *testing.T) {
	for _, successor := range []bool{false, true} {
		a := absent("10.244.0.0/24")
		if !successor {
			// Who begins meanwhile does not know the node's own addresses.
			p := askingNames()
			p.Rules = [2][]model.Rule{
				{{Verdict: model.Allow, AnyPort: true, Peers: []model.Peer{{Block: &model.Block{CIDR: netip.MustParsePrefix("192.0.2.8/29")}}}}}, {},
			}
			p.Subject.Namespace, p.Isolates = "a", [2]bool{true, false}
			a.setPolicy(p)
			a.settle()
		}
		before, given := refs(a.graph), a.given("n1")
		if len(given.Addresses) != 1 || len(given.Faces) != 1 || a.rows() == "" {
			t.Fatalf("the node has %+v", given)
		}
		patches := a.patches
		a.deleteNode("n1")
		if successor {
			a.succeed()
		}
		a.settle()
		if during := refs(a.graph); !slices.Equal(before, during) {
			t.Errorf("successor %t: while the Node is away, %v come and %v go", successor, without("", during, before), without("", before, during))
		}
		if a.patches != patches {
			t.Errorf("successor %t: %d annotations are written meanwhile", successor, a.patches-patches)
		}
		again := node("n1", 9)
		again.UID, again.Addresses, again.Labels = "uid-again", []netip.Addr{at("192.0.2.11")}, map[string]string{"zone": "one"}
		a.setNode(again)
		a.settle()
		after := refs(a.graph)
		for i, row := range after {
			after[i] = strings.ReplaceAll(row, "uid-again", "uid-n1")
		}
		// By the policy, the node's access list has the number of its Node.
		if successor && !slices.Equal(before, after) {
			t.Errorf("successor %t: when it is there again, %v come and %v go", successor, without("", after, before), without("", before, after))
		}
		if now := a.given("n1"); now.NodeUID != "uid-again" || !slices.Equal(now.Addresses, given.Addresses) ||
			!slices.Equal(now.Faces, given.Faces) {
			t.Errorf("successor %t: it had %+v, and has %+v", successor, given, now)
		}
		// What is there stays, however long.
		a.turn(a.began.Add(2 * model.KeepNode))
		if a.rows() == "" {
			t.Errorf("successor %t: it lost its rows later", successor)
		}
	}
}

// TestWhatAGoneNodeHadGoes: there is an end to what is kept for a node that does not come again, each with what it is kept for and without.
func TestWhatAGoneNodeHadGoes(t *testing.T) {
	list := func(names ...string) func(*absence) {
		return func(a *absence) { a.setShutOut(names...); a.settle() }
	}
	for _, test := range []struct {
		name string
		// before the Node goes, and then.
		before, then func(*absence)
		goes         bool
	}{
		{"nothing more", nil, nil, false},
		{"one of its pods goes", nil, func(a *absence) { a.deletePod(a.pods[0].Key) }, false},
		{"its last pod goes", nil, func(a *absence) { a.deletePod(a.pods[0].Key); a.deletePod(a.pods[1].Key) }, true},
		{"another is shut out", nil, list("n0", "n2"), false},
		{"it is shut out", nil, list("n0", "n1"), true},
		{"it was shut out before", list("n1"), nil, true},
		{"it was shut out and admitted before", func(a *absence) { list("n1")(a); list()(a) }, nil, false},
		{"the time is not over", nil, func(a *absence) { a.turn(a.began.Add(model.KeepNode - time.Second)) }, false},
		{"the time is over", nil, func(a *absence) { a.turn(a.began.Add(model.KeepNode)) }, true},
		{"the time is over, and pods came all the while", nil, func(a *absence) {
			for i := range 10 {
				a.turn(a.began.Add(time.Duration(i+1) * model.KeepNode / 10))
				a.setPod(pod("a", "late-"+string(rune('a'+i)), ""))
				a.settle()
			}
			a.turn(a.began.Add(model.KeepNode + time.Second))
		}, true},
	} {
		for _, successor := range []bool{false, true} {
			a := absent("10.244.0.0/24")
			if test.before != nil {
				test.before(a)
			}
			a.deleteNode("n1")
			if successor {
				a.succeed()
			}
			a.settle()
			if test.then != nil {
				test.then(a)
			}
			a.settle()
			if gone := a.rows() == ""; gone != test.goes {
				t.Errorf("%s, successor %t: its rows go: %t, want %t:\n%s", test.name, successor, gone, test.goes, a.rows())
			}
		}
	}
}

// TestALiveNodeWins: nothing that is kept of a node stands against one that is there.
func TestALiveNodeWins(t *testing.T) {
	t.Run("it has the machine's address", func(t *testing.T) {
		a := absent("10.244.0.0/24")
		a.deleteNode("n1")
		other := node("n9", 9)
		other.Addresses = []netip.Addr{at("192.0.2.11")}
		a.setNode(other)
		a.settle()
		if a.rows() != "" {
			t.Errorf("kept all the same:\n%s", a.rows())
		}
	})
	t.Run("it needs the last address of the default Network", func(t *testing.T) {
		a := absent("10.244.0.0/29") // n1, n2, a pod, and two more.
		held := a.given("n1").Addresses
		a.deleteNode("n1")
		a.settle()
		for i, name := range []string{"n3", "n4"} {
			a.setNode(node(name, int64(3+i)))
			a.settle()
		}
		if a.rows() == "" || len(a.given("n4").Addresses) != 1 {
			t.Fatalf("with room for all: n4 has %+v, and of n1 is kept:\n%s", a.given("n4"), a.rows())
		}
		a.setNode(node("n5", 5))
		a.settle()
		a.turn(a.began)
		if got := a.given("n5").Addresses; a.rows() != "" || !slices.Equal(got, held) {
			t.Errorf("it has %v, want %v; of n1 is kept:\n%s", got, held, a.rows())
		}
		again := node("n1", 9)
		again.UID = "uid-again"
		a.setNode(again)
		a.settle()
		if got := a.given("n1"); len(got.Addresses) != 0 {
			t.Errorf("n1 has come again to %v", got.Addresses)
		}
	})
	for what, has := range map[string]func(to, of *model.NodeNetwork){
		"address": func(to, of *model.NodeNetwork) { to.Addresses = of.Addresses },
		"faces":   func(to, of *model.NodeNetwork) { to.Faces = of.Faces },
	} {
		t.Run("a controller begins that finds it with the "+what, func(t *testing.T) {
			a := absent("10.244.0.0/24")
			of, to := a.given("n1"), a.given("n2")
			has(&to, &of)
			a.deleteNode("n1")
			other := node("n2", 2)
			other.Assigned = &to
			a.setNode(other)
			a.succeed()
			a.settle()
			if got := a.given("n2"); !slices.Equal(got.Addresses, to.Addresses) || !slices.Equal(got.Faces, to.Faces) || a.rows() != "" {
				t.Errorf("n2 has %+v, want %+v; of n1 is kept:\n%s", got, to, a.rows())
			}
		})
	}
	t.Run("rows are of a default Network that was made anew", func(t *testing.T) {
		a := absent("10.244.0.0/24")
		a.deleteNode("n1")
		home := *a.networks["default"]
		home.UID = "uid-anew"
		a.setNetwork(home)
		a.succeed()
		a.settle()
		if a.rows() != "" {
			t.Errorf("kept all the same:\n%s", a.rows())
		}
	})
}

// TestAGoneNodeGetsNothing: pods that are bound to it while it is away wait for it.
func TestAGoneNodeGetsNothing(t *testing.T) {
	a := absent("10.244.0.0/24")
	a.deleteNode("n1")
	late := pod("a", "late", "red")
	a.setPod(late)
	a.settle()
	if a.hasPort(late) || !a.hasPort(a.pods[0]) {
		t.Errorf("the late pod has a port: %t, the one from before: %t", a.hasPort(late), a.hasPort(a.pods[0]))
	}
	again := node("n1", 9)
	again.UID = "uid-again"
	a.setNode(again)
	a.settle()
	if !a.hasPort(late) {
		t.Error("it has no port when the node is there again")
	}
}

// TestANodeThatComesAgainIsServed: a Node that is listed again is served as any other, for good, whether it was shut out, is
// still so, or comes as the time of its absence ends. Admission keeps nodes that are shut out from being listed; what the API
// server lists, it has admitted.
func TestANodeThatComesAgainIsServed(t *testing.T) {
	goes := func(a *absence) { a.deleteNode("n1") }
	comes := func(a *absence) {
		again := node("n1", 9)
		again.UID, again.Addresses = "uid-again", []netip.Addr{at("192.0.2.11")}
		a.setNode(again)
	}
	list := func(names ...string) func(*absence) { return func(a *absence) { a.setShutOut(names...) } }
	later := func(d time.Duration) func(*absence) { return func(a *absence) { a.state.Turn(a.began.Add(d)) } }
	settle := func(a *absence) { a.settle() }
	for name, steps := range map[string][]func(*absence){
		"at once":                               {goes, comes},
		"while the time runs":                   {goes, settle, later(model.KeepNode / 2), settle, comes},
		"in the moment in which the time ends":  {goes, settle, later(model.KeepNode), comes},
		"when the time is over":                 {goes, settle, later(model.KeepNode), settle, comes},
		"after a shut-out, admitted":            {list("n1"), goes, settle, list(), settle, comes},
		"as it is admitted":                     {list("n1"), goes, settle, list(), comes},
		"while it is shut out":                  {list("n1"), goes, settle, comes},
		"as it is shut out":                     {goes, settle, list("n1"), comes},
		"it was shut out while it was kept":     {goes, settle, list("n1"), settle, comes},
		"it is shut out when it is there again": {goes, settle, comes, settle, list("n1")},
		"it goes and comes while the time runs": {goes, settle, comes, settle, later(time.Minute), goes, settle, comes},
		"its last pod goes in the same moment": {
			goes, settle, func(a *absence) { a.deletePod(a.pods[0].Key); a.deletePod(a.pods[1].Key) }, comes,
		},
	} {
		a := absent("10.244.0.0/24")
		given := a.given("n1")
		for _, step := range steps {
			step(a)
		}
		a.settle()
		a.turn(a.began.Add(3 * model.KeepNode))
		late := pod("a", "late", "red")
		a.setPod(late)
		a.settle()
		if now := a.given("n1"); a.rows() == "" || !a.hasPort(late) || now.NodeUID != "uid-again" ||
			!slices.Equal(now.Addresses, given.Addresses) || !slices.Equal(now.Faces, given.Faces) {
			t.Errorf("%s: it had %+v, and has %+v; a new pod has a port: %t; rows:\n%s", name, given, now, a.hasPort(late), a.rows())
		}
	}
}
