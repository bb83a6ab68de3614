package ui

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/topology"
)

const (
	// maxOpen is how many Networks the map shows from inside, and maxDots how many pods of one.
	maxOpen, maxDots = 8, 60
)

// node is a box of the map. Those that have others inside have no place of their own.
type node struct {
	ID string `json:"id"`
	// Kind is tenant, network, island (a Network from inside), alike, router, subnet, services, gateway, policy or pod; or end,
	// which is in no Network.
	Kind string `json:"kind"`
	// Label is what stands in it, Says what a screen reader says.
	Label string `json:"label"`
	Says  string `json:"says"`
	// Parent is the box that it is in, Link the page about it.
	Parent string `json:"parent,omitempty"`
	Link   string `json:"link,omitempty"`
	// State is good, late or bad.
	State string `json:"state,omitempty"`
	// X and Y are its middle, W and H its size, in pixels at scale 1.
	X float64 `json:"x"`
	Y float64 `json:"y"`
	W float64 `json:"w"`
	H float64 `json:"h"`
}

// edge is a line of the map: from who reaches to who is reached, between a router and what hangs on it, or what goes between two.
type edge struct {
	ID string `json:"id"`
	// Kind is reach, wire or flow.
	Kind  string `json:"kind"`
	From  string `json:"from"`
	To    string `json:"to"`
	Label string `json:"label,omitempty"`
	Link  string `json:"link,omitempty"`
	State string `json:"state,omitempty"`
	Both  bool   `json:"both,omitempty"`
	// Says is what a screen reader says, Size how thick it is, of flows.
	Says string `json:"says,omitempty"`
	Size int    `json:"size,omitempty"`
}

// picture is what the map draws. Flows are drawn over it: overlay.
type picture struct {
	Nodes []node `json:"nodes"`
	Edges []edge `json:"edges"`
	// Title says what there is in a line.
	Title string `json:"title"`
	// Open are the Networks that are shown from inside, Pods those with their pods.
	Open []string `json:"open"`
	Pods []string `json:"pods"`

	// places are the boxes of Networks, routers those of open ones, parts what is inside those.
	places, routers map[string]string
	parts           map[string]bool
	// high is how far down it goes.
	high float64
	// ofPods: no Network may be seen, so that pods with flows are its boxes, but for morePods.
	ofPods   bool
	morePods int
}

// inside is what an open Network has beside its topology.
type inside struct {
	policies []string
	pods     []api.Pod
	morePods int
}

// graph serves the picture: folded, unless all is asked for, but for Networks that are open.
func (s *Server) graph(w http.ResponseWriter, r *http.Request) {
	p, err := s.pictured(r)
	if err != nil {
		v := problem(view{Title: "The map"}, err)
		http.Error(w, v.Said, v.status)
		return
	}
	writeJSON(w, p)
}

// pictured is the picture that is asked for.
func (s *Server) pictured(r *http.Request) (picture, error) {
	q := r.URL.Query()
	all, _, err := s.config.Source.Topologies(r.Context())
	if apierrors.IsForbidden(err) {
		if len(s.config.Source.Namespaces(r.Context())) > 0 {
			return namespacesPicture(), nil
		}
	}
	if err != nil {
		return picture{}, fmt.Errorf("topology: %w", err)
	}
	open, pods := q["open"], q["pods"]
	insides := s.insides(r.Context(), all, open[:min(len(open), maxOpen)], pods)
	return draw(all, insides, pods, q.Get("all") != ""), nil
}

// insides asks for the insides of those Networks that are there. What is not told is not drawn: the page beside the map says why.
func (s *Server) insides(ctx context.Context, all []api.Topology, open, pods []string) map[string]*inside {
	out := map[string]*inside{}
	for _, name := range open {
		if slices.ContainsFunc(all, func(t api.Topology) bool { return t.Name == name }) {
			out[name] = &inside{}
		}
	}
	names := make([]string, 0, len(out))
	for name := range out {
		names = append(names, name)
	}
	each(len(names), func(i int) {
		n, _, err := s.config.Source.Network(ctx, names[i])
		if err != nil || n.Status.Detail == nil {
			return
		}
		in := out[names[i]]
		in.policies = n.Status.Detail.Policies
		if !slices.Contains(pods, names[i]) {
			return
		}
		if list, _, err := podsIn(ctx, s.config.Source, n); err == nil {
			in.pods = list[:min(len(list), maxDots)]
			in.morePods = len(list) - len(in.pods)
		}
	})
	return out
}

// draw makes the picture. Places follow from what there is alone: the same cluster looks the same each time.
func draw(all []api.Topology, open map[string]*inside, pods []string, unfolded bool) picture {
	p := picture{
		Nodes: []node{}, Edges: []edge{}, Title: titleOf(all), Open: []string{}, Pods: []string{}, routers: map[string]string{},
		parts: map[string]bool{},
	}
	for _, t := range all {
		if open[t.Name] != nil {
			p.Open = append(p.Open, t.Name)
			if slices.Contains(pods, t.Name) {
				p.Pods = append(p.Pods, t.Name)
			}
		}
	}
	places := map[string]string{}
	var tenants []block
	names, groups := topology.ByTenant(all)
	for _, tenant := range names {
		var blocks []block
		id := "tenant/" + tenant
		shown, alike := foldBut(groups[tenant], open, len(all) > topology.FoldFrom && !unfolded)
		for _, t := range shown {
			places[t.Name] = "network/" + t.Name
			blocks = append(blocks, p.network(t, id, open[t.Name]))
		}
		for i, a := range alike {
			n := alikeNode(fmt.Sprintf("alike/%s/%d", tenant, i), id, tenant, a)
			for _, t := range a.Networks {
				places[t.Name] = n.ID
			}
			blocks = append(blocks, single(n))
		}
		label := snapshot.Printable(topology.TenantWords(tenant))
		group := node{ID: id, Kind: "tenant", Label: label, Says: fmt.Sprintf("%s: %s", label, model.Count(len(groups[tenant]), "Network"))}
		tenants = append(tenants, packed(blocks).around(group))
	}
	// Peers that the user may not get are drawn by their names.
	var strangers []block
	for _, t := range all {
		for _, peer := range t.Status.Peers {
			if places[peer.Network] == "" {
				id := "network/" + peer.Network
				places[peer.Network] = id
				strangers = append(strangers,
					single(node{
						ID: id, Kind: "stranger", Label: snapshot.Printable(peer.Network), Says: "Network " + peer.Network + ", which is somebody else's",
					}))
			}
		}
	}
	whole := packed(append(tenants, strangers...))
	p.Nodes = append(p.Nodes, whole.nodes...)
	for i := range p.Nodes {
		p.Nodes[i].Label, p.Nodes[i].Says = shown(p.Nodes[i].Label), snapshot.Printable(p.Nodes[i].Says)
	}
	p.places, p.high = places, whole.h
	p.reaches(all, places)
	return p
}

// foldBut folds Networks, but not those that are open.
func foldBut(all []api.Topology, open map[string]*inside, fold bool) ([]api.Topology, []topology.Alike) {
	if !fold {
		return all, nil
	}
	var shut, shown []api.Topology
	for _, t := range all {
		if open[t.Name] != nil {
			shown = append(shown, t)
		} else {
			shut = append(shut, t)
		}
	}
	rest, alike := topology.Fold(shut)
	shown = append(shown, rest...)
	slices.SortFunc(shown, func(a, b api.Topology) int { return strings.Compare(a.Name, b.Name) })
	return shown, alike
}

func alikeNode(id, parent, tenant string, a topology.Alike) node {
	label := model.Count(len(a.Networks), "Network")
	if len(a.Peers) == 0 {
		label += "\nwithout peers"
	}
	label += "\n" + model.Count(int(topology.PodsOf(a.Networks)), "pod")
	return node{
		ID: id, Kind: "alike", Parent: parent, Label: label, W: islandWidth, H: islandHeight, Link: tenantURL(tenant),
		Says: strings.ReplaceAll(label, "\n", ", "), State: "good",
	}
}

// reaches adds who reaches whom.
func (p *picture) reaches(all []api.Topology, places map[string]string) {
	for i, r := range topology.Reaches(all, func(network string) string { return places[network] }) {
		e := edge{ID: fmt.Sprintf("reach/%d", i), Kind: "reach", From: r.From, To: r.To, Label: r.Mode, State: stateClass(r.State), Both: r.Both}
		if r.State != "Active" {
			e.Label += ", " + r.State
		}
		from, single := strings.CutPrefix(r.From, "network/")
		to, both := strings.CutPrefix(r.To, "network/")
		if single && both {
			e.Link = peeringURL(from, to)
		}
		p.Edges = append(p.Edges, e)
	}
}

// titleOf says what there is in a line.
func titleOf(all []api.Topology) string {
	_, groups := topology.ByTenant(all)
	tenants := len(groups)
	if len(groups[""]) > 0 {
		tenants--
	}
	return fmt.Sprintf("%s, %s, %s", model.Count(len(all), "Network"), model.Count(tenants, "tenant"),
		model.Count(int(topology.PodsOf(all)), "pod"))
}
