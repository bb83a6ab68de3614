package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/cli/diagram"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/topology"
)

// maxSubnets is how many subnets, and how many Gateways, a box has.
const maxSubnets = 6

// topologyGraph is a picture of Networks: a box for each, and an arrow to each whose pods its pods reach.
func topologyGraph(all []api.Topology, folded bool) diagram.Graph {
	var g diagram.Graph
	// boxOf is the box in which a Network is.
	boxOf := map[string]string{}
	names, of := topology.ByTenant(all)
	for _, tenant := range names {
		group := ""
		if tenant != "" {
			group = topology.TenantWords(tenant)
		}
		shown, alike := of[tenant], []topology.Alike(nil)
		if folded {
			shown, alike = topology.Fold(shown)
		}
		for _, t := range shown {
			boxOf[t.Name] = t.Name
			g.Boxes = append(g.Boxes, diagram.Box{ID: t.Name, Group: group, Lines: boxLines(t, folded)})
		}
		for i, a := range alike {
			// No Network's name has a space.
			id := fmt.Sprintf("%s %d", tenant, i)
			lines := []string{model.Count(len(a.Networks), "Network")}
			if len(a.Peers) == 0 {
				lines[0] += " without peers"
			}
			g.Boxes = append(g.Boxes, diagram.Box{
				ID: id, Group: group, Lines: append(lines, whoseLine(tenant)+model.Count(int(topology.PodsOf(a.Networks)), "pod")), Faint: true,
			})
			for _, t := range a.Networks {
				boxOf[t.Name] = id
			}
		}
	}
	for _, t := range all {
		for _, peer := range t.Status.Peers {
			if boxOf[peer.Network] == "" {
				boxOf[peer.Network] = peer.Network
				g.Boxes = append(g.Boxes, diagram.Box{ID: peer.Network, Lines: []string{snapshot.Printable(peer.Network)}, Faint: true})
			}
		}
	}
	g.Edges = edges(topology.Reaches(all, func(network string) string { return boxOf[network] }))
	return g
}

// edges are arrows, those in both directions as one.
func edges(reaches []topology.Reach) (out []diagram.Edge) {
	for _, r := range reaches {
		e := diagram.Edge{From: r.From, To: r.To, Label: r.Mode, Both: r.Both}
		if r.State != "Active" {
			e.Label, e.Dashed = r.Mode+", "+r.State, true
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
	return topology.TenantWords(tenant) + ", "
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
			lines = append(lines, "offered to "+topology.OfferWords(offer))
		}
	}
	lines = append(lines, podsText(s.Pods, s.Nodes, false))
	for i := range lines {
		lines[i] = snapshot.Printable(lines[i])
	}
	return lines
}
