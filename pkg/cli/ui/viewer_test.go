package ui

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// viewerOf returns a cluster whose user may view some namespaces. red and blue have the same addresses.
func viewerOf(t testing.TB, namespaces ...string) *cluster {
	t.Helper()
	c := sample(t)
	c.flows, c.views = sampleFlows(flowsNow), namespaces
	return c
}

// siteOf returns the page of a user who named namespaces.
func siteOf(t testing.TB, source Source, namespaces ...string) *site {
	t.Helper()
	return newSite(t, namedSource{source, namespaces})
}

// TestWhoHasNoNetwork: a user who may get no Network sees the flows of the pods in the namespaces that this user may view. With
// namespace red alone, blue's pods are shown as "others", and flows between blue's pods are absent. The control is a user who may
// view both namespaces.
func TestWhoHasNoNetwork(t *testing.T) {
	t.Parallel()
	const service, outside = "end/pod/red/web-1 -> end/Services: 1.6/min allowed NetworkPolicy/red/api good",
		"end/outside -> end/pod/red/web-0: 0.7/min dropped isolation bad"
	red := []string{
		"end/others -> end/pod/red/web-0: 1.5/s allowed NetworkPolicy/red/friends good",
		"end/others -> end/pod/red/web-0: 10/min dropped ClusterNetworkPolicy/quota bad", outside,
		"end/pod/red/friend -> end/pod/red/locked: 2.0/min dropped isolation bad",
		"end/pod/red/web-0 -> end/pod/red/db-0: 13/min allowed NetworkPolicy/red/db-from-web good", service,
	}
	o := siteOf(t, viewerOf(t, "red"), "red", "blue", "elsewhere").overlay("")
	if diff := cmp.Diff(shortened(red), shortened(o.strokes())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if o.Note != "these are the flows of pods in namespace red" || o.Why != "" {
		t.Errorf("it says %q, %q", o.Note, o.Why)
	}
	for _, n := range o.Nodes {
		if strings.Contains(n.ID+n.Label+n.Says+n.Link, "blue") {
			t.Errorf("there is %+v", n)
		}
		if n.ID == "end/pod/red/web-0" &&
			(n.Link != "/pod/red/web-0" || n.Says != "pod red/web-0, of Network red" || n.Label != "red/web-0\nred") {
			t.Errorf("the box is %+v", n)
		}
		for _, m := range o.Nodes {
			if n.ID != m.ID && n.X == m.X && n.Y == m.Y {
				t.Errorf("%s lies on %s", n.ID, m.ID)
			}
		}
	}
	both := siteOf(t, viewerOf(t, "red", "blue"), "red", "blue").overlay("")
	if got := strings.Join(both.strokes(), "\n"); !strings.Contains(got, "end/pod/blue/web-0 -> end/pod/red/web-0") ||
		!strings.Contains(got, "end/others -> end/pod/blue/db-0") {
		t.Errorf("who may view both sees\n%s", got)
	}

	// In words, and a line of the map with its way.
	s := siteOf(t, viewerOf(t, "red"), "red")
	text := s.says("/flows", "these are the flows of pods in namespace red", "red/web-0", "NetworkPolicy/red/db-from-web")
	if strings.Contains(text, "NetworkPolicy/blue") || strings.Contains(text, "blue/") {
		t.Errorf("the table has %s", words(text))
	}
	i := slices.IndexFunc(s.overlay("").Edges, func(e edge) bool { return strings.Contains(e.To, "locked") })
	s.says(s.overlay("").Edges[i].Link, "From pod red/friend to pod red/locked, dropped", "isolation", "Stopped: red/friend to red/locked")
	s.says("/", "No Network is yours to see")
	if p := s.graph(""); len(p.Nodes) != 0 || !strings.HasPrefix(p.Title, "No Network is yours to see") {
		t.Errorf("the map is %+v", p)
	}
}

// shortened are strokes without their rates, which hold what both ends have counted.
func shortened(strokes []string) (out []string) {
	for _, s := range strokes {
		ends, rest, _ := strings.Cut(s, ": ")
		_, rest, _ = strings.Cut(rest, " ")
		out = append(out, ends+": "+rest)
	}
	slices.Sort(out)
	return out
}

// TestNobodysNamespaces: a user who may view no namespace is told why the map is empty. A namespace whose flows cannot be read is
// an error. The numbers of namespaces and of boxes are bounded, and the page says what it left out.
func TestNobodysNamespaces(t *testing.T) {
	t.Parallel()
	if o := siteOf(t, viewerOf(t, "elsewhere"), "red", "blue").overlay(""); len(o.Edges)+len(o.Nodes) != 0 ||
		!strings.Contains(o.Why, "you may not see any here") {
		t.Errorf("nobody's are %+v", o)
	}
	broken := viewerOf(t, "red", "blue")
	broken.broken = map[string]error{"blue": errors.New("no agent answers")}
	if o := siteOf(t, broken, "red", "blue").overlay(""); len(o.Edges) != 0 ||
		!strings.Contains(o.Why, "of namespace blue: no agent answers") {
		t.Errorf("of one that does not answer: %+v", o)
	}
	var many []string
	for i := range maxViewed + 4 {
		many = append(many, fmt.Sprintf("ns-%02d", i))
	}
	c := viewerOf(t, many...)
	c.flows = nil
	for i := range maxDots + 7 {
		pod := fmt.Sprintf("ns-00/web-%02d", i)
		c.flows = append(c.flows,
			judged(flowsNow, 1, api.FlowEnd{Address: "203.0.113.9", Kind: api.FlowOutside}, podEnd(pod, "10.0.0.2"), verdictAllow, "p", uint64(1+i)))
	}
	s := siteOf(t, c, many...)
	o := s.overlay("")
	pods := len(slices.DeleteFunc(slices.Clone(o.Nodes), func(n node) bool { return !strings.HasPrefix(n.ID, "end/pod/") }))
	if !strings.Contains(o.Note, "; 4 more namespaces not asked about") || c.questions() != 1+maxViewed || pods != maxDots {
		t.Errorf("%d questions, %d boxes of pods: %s", c.questions(), pods, o.Note)
	}
	if i := slices.IndexFunc(o.Nodes, func(n node) bool { return n.ID == "end/others" }); i < 0 ||
		o.Nodes[i].Label != "others\nand 7 more pods" {
		t.Errorf("the others are %+v", o.Nodes)
	}
	// Those with the fewest connections are not shown.
	if slices.ContainsFunc(o.Nodes, func(n node) bool { return n.ID == "end/pod/ns-00/web-06" }) {
		t.Error("others are shown than those with the most connections")
	}
	// For a user who may get Networks, the page asks about no namespace.
	all := sample(t)
	all.flows = sampleFlows(flowsNow)
	if status, _ := siteOf(t, all, "red").get("/graph/flows"); status != http.StatusOK || all.questions() != 1 {
		t.Errorf("status %d, %d questions", status, all.questions())
	}
}
