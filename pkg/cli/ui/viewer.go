package ui

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// A user who may view namespaces, but may get no Network, sees the flows of the pods in those namespaces. The API serves these
// flows by namespace (podflows), and there it names nobody from namespaces that the user may not view.

const (
	// maxViewed bounds the namespaces whose flows are asked for. flowsBeside bounds the requests at the same time: the API answers
	// four requests of one user at once.
	maxViewed   = 16
	flowsBeside = 3
	// maxSeen bounds the flows of all these namespaces together; the newest are kept. The API returns as many for one namespace.
	maxSeen = 1 << 14
)

// namedSource adds the namespaces that the user named to those that the Source lists. A user who may only view a namespace cannot
// list any.
type namedSource struct {
	Source
	names []string
}

// Namespaces implements Source. Those that were named come first.
func (n namedSource) Namespaces(ctx context.Context) []string {
	out := slices.Clone(n.names)
	for _, name := range n.Source.Namespaces(ctx) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// viewed are the flows of namespaces.
type viewed struct {
	// namespaces are those whose flows were read. more counts those that were not asked about.
	namespaces []string
	more       int
	flows      []api.Flow
	status     api.FlowStatus
}

// byNamespace asks for the flows of the pods in each of the Source's namespaces. It skips a namespace where the API forbids this.
// Its result is empty when the API forbids all of them.
func (s *Server) byNamespace(ctx context.Context, w window, q flows.Question) (viewed, error) {
	var out viewed
	names := s.config.Source.Namespaces(ctx)
	if len(names) > maxViewed {
		out.more = len(names) - maxViewed
		names = names[:maxViewed]
	}
	flows, states, errs := make([][]api.Flow, len(names)), make([]api.FlowStatus, len(names)), make([]error, len(names))
	someAtATime(len(names), flowsBeside, func(i int) {
		states[i], errs[i] = s.config.Source.Flows(ctx, client.FlowScope{Namespace: names[i]}, q, func(f api.Flow) error {
			if w.has(f.Minute.Time) {
				flows[i] = append(flows[i], f)
			}
			return nil
		}, func(api.SilentNode) {})
	})
	for i, err := range errs {
		switch {
		case apierrors.IsForbidden(err):
			continue
		case err != nil:
			return viewed{}, fmt.Errorf("of namespace %s: %w", names[i], err)
		}
		out.namespaces = append(out.namespaces, names[i])
		out.flows = append(out.flows, flows[i]...)
		out.status = bothStates(out.status, states[i])
	}
	if len(out.flows) > maxSeen {
		slices.SortStableFunc(out.flows, func(a, b api.Flow) int { return b.Last.Compare(a.Last.Time) })
		out.flows, out.status.Cut = out.flows[:maxSeen], true
	}
	return out, nil
}

// bothStates joins what two answers lack.
func bothStates(a, b api.FlowStatus) api.FlowStatus {
	a.Nodes, a.Others, a.Cut = max(a.Nodes, b.Nodes), max(a.Others, b.Others), a.Cut || b.Cut
	for _, n := range b.Silent {
		if !slices.ContainsFunc(a.Silent, func(s api.SilentNode) bool { return s.Node == n.Node }) {
			a.Silent = append(a.Silent, n)
		}
	}
	return a
}

// missing says whose flows these are, if they are not all, and which flows are missing.
func (s seen) missing() string {
	var parts []string
	if len(s.namespaces) > 0 {
		said := "these are the flows of pods in " + namespacesWords(s.namespaces)
		if s.more > 0 {
			said += fmt.Sprintf("; %s not asked about", model.Count(s.more, "more namespace"))
		}
		parts = append(parts, said)
	}
	if missing := flows.Missing(s.status); missing != "" {
		parts = append(parts, missing)
	}
	return strings.Join(parts, "; ")
}

func namespacesWords(names []string) string {
	if len(names) == 1 {
		return "namespace " + names[0]
	}
	return "namespaces " + strings.Join(names, ", ")
}

// namespacesPicture is the map for a user who may get no Network: it only has the ends of flows as boxes.
func namespacesPicture() picture {
	return picture{
		Nodes: []node{}, Edges: []edge{}, Title: "No Network is yours to see: the map has the pods of your namespaces that have flows",
		Open: []string{}, Pods: []string{}, ofPods: true,
	}
}

// dots are the boxes of pods, for a map without Networks: those with the most connections, by their names.
func (p *picture) dots(talks []*talk) []node {
	connections := map[string]uint64{}
	of := map[string]party{}
	for _, t := range talks {
		for _, end := range []party{t.From, t.To} {
			if end.Kind == api.FlowPod && end.Name != "" && end.Network != "" {
				connections[end.Name] += t.connections(false) + t.connections(true)
				of[end.Name] = end
			}
		}
	}
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(connections[b], connections[a]), strings.Compare(a, b))
	})
	p.morePods = max(0, len(names)-maxDots)
	names = names[:len(names)-p.morePods]
	slices.Sort(names)
	const across = 6
	nodes := make([]node, 0, len(names))
	p.parts = map[string]bool{}
	for i, name := range names {
		namespace, pod, _ := strings.Cut(name, "/")
		n := node{
			ID: endPlace + strings.TrimPrefix(podPlace, "/") + name, Kind: "end",
			Label: shown(snapshot.Printable(name) + "\n" + snapshot.Printable(of[name].Network)), W: islandWidth, H: islandHeight,
			Link: pathOf("pod", namespace, pod),
			Says: snapshot.Printable("pod " + name + ", of Network " + of[name].Network),
			X:    float64(i%across)*(islandWidth+wideGap) + islandWidth/2, Y: float64(i/across)*(islandHeight+wideGap) + islandHeight/2,
		}
		p.parts[n.ID] = true
		p.high = n.Y + islandHeight/2
		nodes = append(nodes, n)
	}
	return nodes
}
