package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/diagram"
	"github.com/atoll-net/atoll/pkg/inspect"
	"github.com/atoll-net/atoll/pkg/model"
)

// maxSubnets is how many subnets, and how many Gateways, a box has.
const maxSubnets = 6

// reach is that pods of one Network reach those of another, or are to.
type reach struct{ from, to, mode, state string }

// topologyGraph is a picture of Networks: a box for each, and an arrow to each whose pods its pods reach.
func topologyGraph(all []api.Topology, folded bool) diagram.Graph {
	var g diagram.Graph
	// boxOf is the box in which a Network is.
	boxOf := map[string]string{}
	names, of := tenants(all)
	for _, tenant := range names {
		group := ""
		if tenant != "" {
			group = whoseNetworks(tenant)
		}
		shown, alike := of[tenant], []alikes(nil)
		if folded {
			shown, alike = fold(shown)
		}
		for _, t := range shown {
			boxOf[t.Name] = t.Name
			g.Boxes = append(g.Boxes, diagram.Box{ID: t.Name, Group: group, Lines: boxLines(t, folded)})
		}
		for i, a := range alike {
			// No Network's name has a space.
			id := fmt.Sprintf("%s %d", tenant, i)
			lines := []string{model.Count(len(a.all), "Network")}
			if len(a.peers) == 0 {
				lines[0] += " without peers"
			}
			g.Boxes = append(g.Boxes, diagram.Box{ID: id, Group: group, Lines: append(lines, whoseLine(tenant)+model.Count(int(podsOf(a.all)), "pod")), Faint: true})
			for _, t := range a.all {
				boxOf[t.Name] = id
			}
		}
	}
	seen := map[reach]bool{}
	for _, t := range all {
		for _, peer := range t.Status.Peers {
			if boxOf[peer.Network] == "" {
				boxOf[peer.Network] = peer.Network
				g.Boxes = append(g.Boxes, diagram.Box{ID: peer.Network, Lines: []string{inspect.Printable(peer.Network)}, Faint: true})
			}
			r := reach{boxOf[t.Name], boxOf[peer.Network], peer.Mode, peer.State}
			if peer.Direction == "Serves" {
				r.from, r.to = r.to, r.from
			}
			seen[r] = true
		}
	}
	g.Edges = edges(seen)
	return g
}

// edges are arrows, those in both directions as one.
func edges(seen map[reach]bool) (out []diagram.Edge) {
	for r := range seen {
		back := reach{r.to, r.from, r.mode, r.state}
		if seen[back] && r.to < r.from {
			continue
		}
		e := diagram.Edge{From: r.from, To: r.to, Label: r.mode, Both: seen[back]}
		if r.state != "Active" {
			e.Label, e.Dashed = r.mode+", "+r.state, true
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b diagram.Edge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Label, b.Label))
	})
	return out
}

func whoseLine(tenant string) string {
	if tenant == "" {
		return ""
	}
	return whoseNetworks(tenant) + ", "
}

// boxLines are what a Network's box says.
func boxLines(t api.Topology, brief bool) []string {
	s := t.Status
	lines := []string{t.Name, whoseLine(s.Tenant) + s.Type + ", " + s.Phase}
	if !brief {
		for i, subnet := range s.Subnets {
			if i == maxSubnets {
				lines = append(lines, fmt.Sprintf("and %s", model.Count(len(s.Subnets)-i, "more subnet")))
				break
			}
			lines = append(lines, fmt.Sprintf("%s %s, %s", subnet.Name, strings.Join(subnet.CIDRs, " "), model.Count(int(subnet.Pods), "pod")))
		}
		if len(s.ServiceCIDRs) > 0 {
			lines = append(lines, "Services "+strings.Join(s.ServiceCIDRs, " "))
		}
		for i, g := range s.Gateways {
			if i == maxSubnets {
				lines = append(lines, fmt.Sprintf("and %s", model.Count(len(s.Gateways)-i, "more Gateway")))
				break
			}
			lines = append(lines, strings.TrimSpace("Gateway "+g.Name+" "+strings.Join(g.Addresses, " ")))
		}
		for _, offer := range s.Offers {
			lines = append(lines, "offered to "+offerText(offer))
		}
	}
	lines = append(lines, podsText(s.Pods, s.Nodes, false))
	for i := range lines {
		lines[i] = inspect.Printable(lines[i])
	}
	return lines
}
