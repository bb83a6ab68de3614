package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
)

// nodes are a cluster's, and what differs on each at each look.
type nodes struct {
	mu sync.Mutex
	// looks are what is found, one after the other; the last again and again. A nil one is silence.
	looks map[string][][]api.NodeDifference
	// mends are the nodes whose agents can put things right.
	mends     map[string]bool
	listed    int
	forbidden bool
}

func on(object string) []api.NodeDifference {
	return []api.NodeDifference{{Owner: "Network/red", Kind: api.NodeObjectMissing, Object: object}}
}

func (n *nodes) look(name string) api.NodeCheck {
	n.mu.Lock()
	defer n.mu.Unlock()
	var c api.NodeCheck
	c.Name = name
	next := n.looks[name]
	if len(next) > 1 {
		n.looks[name] = next[1:]
	}
	if c.Status.Differences = slices.Clone(next[0]); next[0] == nil {
		c.Status.Silent = "nobody is there"
	}
	return c
}

func (n *nodes) NodeChecks(context.Context) (all []api.NodeCheck, down string, err error) {
	if n.forbidden {
		return nil, "", &apierrors.StatusError{
			ErrStatus: meta.Status{Reason: meta.StatusReasonForbidden, Code: http.StatusForbidden, Message: "you may not"},
		}
	}
	n.listed++
	for _, name := range slices.Collect(maps.Keys(n.looks)) {
		all = append(all, n.look(name))
	}
	return all, "", nil
}

func (n *nodes) NodeCheck(_ context.Context, name string) (api.NodeCheck, error) {
	return n.look(name), nil
}

func (n *nodes) RepairNode(_ context.Context, name string) (api.NodeCheck, error) {
	c := n.look(name)
	if !n.mends[name] {
		return c, errors.New("you may not repair")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.looks[name] = [][]api.NodeDifference{{}}
	c.Status.Repaired, c.Status.Differences = c.Status.Differences, nil
	return c, nil
}

// TestNodesSettle: what is on its way on a node is no difference, nor is an agent that has just begun silent; what lasts counts,
// and is repaired where that is asked for.
func TestNodesSettle(t *testing.T) {
	t.Parallel()
	well, bad, other := []api.NodeDifference{}, on("routes"), on("addresses")
	for name, c := range map[string]*struct {
		nodes                                 nodes
		repair                                bool
		differences, silent, repaired, failed []string
		verdict                               string
	}{
		"well": {
			nodes:   nodes{looks: map[string][][]api.NodeDifference{"n1": {well}, "n2": {well}}},
			verdict: "0 differences in 0 Networks, 0 pods, 0 rows, 2 nodes",
		},
		"on its way": {
			nodes:   nodes{looks: map[string][][]api.NodeDifference{"n1": {bad, bad, well}, "n2": {well}}},
			verdict: "0 differences in 0 Networks, 0 pods, 0 rows, 2 nodes",
		},
		"now this, now that": {
			nodes:   nodes{looks: map[string][][]api.NodeDifference{"n1": {bad, other, bad, other}}},
			verdict: "0 differences in 0 Networks, 0 pods, 0 rows, 1 node",
		},
		"it lasts": {
			nodes:       nodes{looks: map[string][][]api.NodeDifference{"n1": {append(on("routes"), other...), bad}, "n2": {well}}},
			differences: []string{"n1 routes"}, verdict: "1 difference in 0 Networks, 0 pods, 0 rows, 2 nodes. Next: atoll check --repair",
		},
		"an agent that has just begun": {
			nodes:   nodes{looks: map[string][][]api.NodeDifference{"n1": {nil, well}, "n2": {well}}},
			verdict: "0 differences in 0 Networks, 0 pods, 0 rows, 2 nodes",
		},
		"an agent is away": {
			nodes:       nodes{looks: map[string][][]api.NodeDifference{"n1": {nil}, "n2": {bad}}},
			differences: []string{"n2 routes"}, silent: []string{"n1"},
			verdict: "1 difference in 0 Networks, 0 pods, 0 rows, 1 node; 1 node not looked at. Next: atoll check --repair",
		},
		"repaired": {
			nodes: nodes{looks: map[string][][]api.NodeDifference{"n1": {bad}, "n2": {well}}, mends: map[string]bool{"n1": true}}, repair: true,
			repaired: []string{"n1 routes"}, verdict: "0 differences in 0 Networks, 0 pods, 0 rows, 2 nodes; 1 repaired",
		},
		"not repaired": {
			nodes: nodes{looks: map[string][][]api.NodeDifference{"n1": {bad}, "n2": {other}}, mends: map[string]bool{"n2": true}}, repair: true,
			differences: []string{"n1 routes"}, repaired: []string{"n2 addresses"}, failed: []string{"n1"},
			verdict: "1 difference in 0 Networks, 0 pods, 0 rows, 2 nodes; 1 repaired. Next: what does atoll-agent's log on the node say?",
		},
		"forbidden": {nodes: nodes{forbidden: true}, verdict: "0 differences in 0 Networks, 0 pods, 0 rows; no node was looked at"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var r Report
			seen := checkNodes(t.Context(), &c.nodes, 5*time.Second, c.repair)
			seen.into(&r)
			texts := func(all []drift.Difference) (out []string) {
				for _, d := range all {
					out = append(out, d.Node+" "+d.Object)
				}
				return out
			}
			names := func(all []NodeProblem) (out []string) {
				for _, p := range all {
					out = append(out, p.Node)
				}
				return out
			}
			for what, pair := range map[string][2][]string{
				"differences": {c.differences, texts(r.Differences)}, "repaired": {c.repaired, texts(r.Repaired)},
				"silent": {c.silent, names(r.Silent)}, "not repaired": {c.failed, names(r.Problems)},
			} {
				if !slices.Equal(pair[0], pair[1]) {
					t.Errorf("%s: %s are %q, want %q", name, what, pair[1], pair[0])
				}
			}
			if got := r.Verdict(); !strings.HasPrefix(got, c.verdict) {
				t.Errorf("%s: %s\nwant %s", name, got, c.verdict)
			}
			if whole := len(c.silent) == 0 && !c.nodes.forbidden; r.Whole() != whole {
				t.Errorf("%s: all was looked at: %t, want %t", name, r.Whole(), whole)
			}
		})
	}
}

// TestManyNodesAreAskedTogether: what differs on many nodes does not make as many questions.
func TestManyNodesAreAskedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		many := nodes{looks: map[string][][]api.NodeDifference{}}
		for i := range 1000 {
			many.looks[fmt.Sprintf("n%d", i)] = [][]api.NodeDifference{on("routes"), {}}
		}
		many.looks["n7"] = [][]api.NodeDifference{on("routes")}
		var r Report
		seen := checkNodes(t.Context(), &many, 5*time.Second, false)
		seen.into(&r)
		if many.listed != 2 || len(r.Differences) != 1 || r.Differences[0].Node != "n7" || r.Nodes != 1000 {
			t.Errorf("asked for all %d times: %d nodes, %+v", many.listed, r.Nodes, r.Differences)
		}
	})
}
