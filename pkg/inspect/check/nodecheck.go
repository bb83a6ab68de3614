package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// checksAtOnce is how many nodes one user asks for at the same time, and checksOneByOne up to how many are asked for by
// themselves: more are asked for with all others.
const checksAtOnce, checksOneByOne = 4, 16

// NodeProblem says why something of a node is not known, or was not done.
type NodeProblem struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// nodeChecker has nodes checked. A Remote is one.
type nodeChecker interface {
	// NodeChecks are those of all nodes; down says why nobody answers for them.
	NodeChecks(ctx context.Context) (all []api.NodeCheck, down string, err error)
	NodeCheck(ctx context.Context, node string) (api.NodeCheck, error)
	// RepairNode has a node repaired, and says what is left.
	RepairNode(ctx context.Context, node string) (api.NodeCheck, error)
}

// nodesSeen is what was found on nodes.
type nodesSeen struct {
	// unasked is why no node was looked at.
	unasked string
	checks  map[string]api.NodeCheck
	// repaired are what has gone by repairs, and problems what these could not do.
	repaired []drift.Difference
	problems []NodeProblem
}

// checkNodes looks at all nodes, and again at those where something differs, or that do not answer, until nothing of it is left
// or for as long as limit says. What differs each time, it has repaired if it is to.
func checkNodes(ctx context.Context, by nodeChecker, limit time.Duration, repair bool) nodesSeen {
	all, down, err := by.NodeChecks(ctx)
	switch {
	case apierrors.IsForbidden(err):
		return nodesSeen{
			unasked: fmt.Sprintf("%v. It takes the verbs get and list of %s, which ClusterRole atoll-check has", err, api.ResourceNodeChecks),
		}
	case err != nil:
		return nodesSeen{unasked: err.Error()}
	case down != "":
		return nodesSeen{unasked: down}
	}
	seen := nodesSeen{checks: map[string]api.NodeCheck{}}
	for _, c := range all {
		seen.checks[c.Name] = c
	}
	seen.settle(ctx, by, limit)
	if repair {
		seen.repair(ctx, by, limit)
	}
	return seen
}

// settle asks again for what differs or is silent.
func (s *nodesSeen) settle(ctx context.Context, by nodeChecker, limit time.Duration) {
	deadline := time.Now().Add(limit)
	for {
		again := s.where(func(c api.NodeCheck) bool { return len(c.Status.Differences) > 0 || c.Status.Silent != "" })
		left := time.Until(deadline)
		if len(again) == 0 || left <= 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(pause, left)):
		}
		for name, c := range s.look(ctx, again, by) {
			if before := s.checks[name]; before.Status.Silent == "" && c.Status.Silent == "" {
				c.Status.Differences = slices.DeleteFunc(c.Status.Differences,
					func(d api.NodeDifference) bool { return !slices.Contains(before.Status.Differences, d) })
				if len(c.Status.Differences) == 0 {
					// What else there is came up after the first look.
					c.Status.More = 0
				}
			}
			s.checks[name] = c
		}
	}
}

// look asks for some nodes again.
func (s *nodesSeen) look(ctx context.Context, names []string, by nodeChecker) map[string]api.NodeCheck {
	if len(names) <= checksOneByOne {
		return s.each(ctx, names, by.NodeCheck)
	}
	all, down, err := by.NodeChecks(ctx)
	if err != nil || down != "" {
		return nil // What was found stays.
	}
	out := map[string]api.NodeCheck{}
	for _, c := range all {
		if slices.Contains(names, c.Name) {
			out[c.Name] = c
		}
	}
	return out
}

// repair has the nodes repaired on which something differs.
func (s *nodesSeen) repair(ctx context.Context, by nodeChecker, limit time.Duration) {
	broken := s.where(func(c api.NodeCheck) bool { return len(c.Status.Differences) > 0 })
	if len(broken) == 0 {
		return
	}
	before := map[string]api.NodeCheck{}
	for _, name := range broken {
		before[name] = s.checks[name]
	}
	for name, c := range s.each(ctx, broken, by.RepairNode) {
		switch {
		case c.Status.Silent != "":
			// What was found is still so, as far as anybody knows.
			s.problems = append(s.problems, NodeProblem{name, c.Status.Silent})
		default:
			if c.Status.Problem != "" {
				s.problems = append(s.problems, NodeProblem{name, c.Status.Problem})
			}
			s.checks[name] = c
		}
	}
	slices.SortFunc(s.problems, func(a, b NodeProblem) int { return cmp.Compare(a.Node, b.Node) })
	s.settle(ctx, by, limit)
	for _, name := range broken {
		now := s.checks[name].Status
		if now.Silent != "" {
			continue
		}
		for _, d := range before[name].Status.Differences {
			if !slices.Contains(now.Differences, d) {
				s.repaired = append(s.repaired, onNode(name, d))
			}
		}
	}
	slices.SortFunc(s.repaired, drift.Compare)
}

// where are the names of the nodes of which something is so, sorted.
func (s *nodesSeen) where(is func(api.NodeCheck) bool) (out []string) {
	for name, c := range s.checks {
		if is(c) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// each asks for some nodes, some at the same time. One that nobody answers for is silent.
func (s *nodesSeen) each(
	ctx context.Context, names []string, ask func(context.Context, string) (api.NodeCheck, error),
) map[string]api.NodeCheck {
	out := make([]api.NodeCheck, len(names))
	next := make(chan int)
	var asking sync.WaitGroup
	for range min(checksAtOnce, len(names)) {
		asking.Go(func() {
			for i := range next {
				c, err := ask(ctx, names[i])
				if err != nil {
					c.Status.Silent = err.Error()
				}
				out[i] = c
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	asking.Wait()
	found := make(map[string]api.NodeCheck, len(names))
	for i, name := range names {
		found[name] = out[i]
	}
	return found
}

// into puts what was found into a report.
func (s *nodesSeen) into(r *Report) {
	r.NodesUnasked, r.Repaired, r.Problems = s.unasked, s.repaired, s.problems
	for _, name := range s.where(func(api.NodeCheck) bool { return true }) {
		status := s.checks[name].Status
		if status.Silent != "" {
			r.Silent = append(r.Silent, NodeProblem{name, status.Silent})
			continue
		}
		r.Nodes++
		r.More += status.More
		for _, d := range status.Differences {
			r.Differences = append(r.Differences, onNode(name, d))
		}
	}
	slices.SortFunc(r.Differences, drift.Compare)
}

// onNode is a difference that an agent found.
func onNode(node string, d api.NodeDifference) drift.Difference {
	owner, _ := nb.ParseOwner(d.Owner)
	return drift.Difference{
		Owner: owner, Place: drift.PlaceNode, Node: node, Kind: drift.Kind(d.Kind), Object: d.Object, Want: d.Want, Have: d.Have,
	}
}
