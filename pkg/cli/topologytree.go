package cli

import (
	"cmp"
	"fmt"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/topology"
)

// paint is whether words are in colours.
type paint bool

// The colours, as terminals know them.
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (p paint) as(color, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// branch is a line of a tree, and what hangs on it.
type branch struct {
	text string
	on   []branch
}

func (b branch) write(text *strings.Builder, indent string) {
	for i, sub := range b.on {
		here, below := "├─ ", "│  "
		if i == len(b.on)-1 {
			here, below = "└─ ", "   "
		}
		fmt.Fprintf(text, "%s%s%s\n", indent, here, sub.text)
		sub.write(text, indent+below)
	}
}

// topologyTitle says what there is in a line.
func topologyTitle(all []api.Topology) string {
	names, of := topology.ByTenant(all)
	tenants := len(names)
	if len(of[""]) > 0 {
		tenants--
	}
	nodes := map[string]bool{}
	for _, t := range all {
		for _, n := range t.Status.Nodes {
			nodes[n.Node] = true
		}
	}
	return fmt.Sprintf("%s, %s, %s on %s", model.Count(len(all), "Network"), model.Count(tenants, "tenant"),
		model.Count(int(topology.PodsOf(all)), "pod"), model.Count(len(nodes), "node"))
}

func topologyTree(text *strings.Builder, all []api.Topology, folded, wide bool, p paint) {
	if len(all) == 0 {
		fmt.Fprintln(text, "There is no Network that you may get.")
		return
	}
	if len(all) == 1 {
		b := networkBranch(all[0], false, wide, p)
		fmt.Fprintln(text, b.text)
		b.write(text, "")
		return
	}
	fmt.Fprintln(text, topologyTitle(all))
	root := branch{}
	names, of := topology.ByTenant(all)
	for _, tenant := range names {
		b := branch{
			text: fmt.Sprintf("%s: %s, %s", p.as(bold, snapshot.Printable(topology.TenantWords(tenant))), model.Count(len(of[tenant]), "Network"),
				model.Count(int(topology.PodsOf(of[tenant])), "pod")),
		}
		shown, alike := of[tenant], []topology.Alike(nil)
		if folded {
			shown, alike = topology.Fold(shown)
		}
		for _, t := range shown {
			b.on = append(b.on, networkBranch(t, folded, wide, p))
		}
		for _, a := range alike {
			b.on = append(b.on, branch{text: alikeText(a, p)})
		}
		root.on = append(root.on, b)
	}
	root.write(text, "")
	if folded {
		fmt.Fprintf(text, "\natoll topology NAME shows one with its switches, --all each of them.\n")
	}
}

func alikeText(a topology.Alike, p paint) string {
	text := model.Count(len(a.Networks), "Network") + " without peers"
	if len(a.Peers) > 0 {
		text = model.Count(len(a.Networks), "Network") + " with " + peersText(a.Peers, false, p)
	}
	return text + ": " + model.Count(int(topology.PodsOf(a.Networks)), "pod")
}

// peersText are peers in a line.
func peersText(peers []api.Peer, wide bool, p paint) string {
	words := make([]string, 0, len(peers))
	for _, peer := range peers {
		words = append(words, p.as(stateColor(peer.State), snapshot.Printable(topology.Arrow(peer)+" "+peer.Network))+" ("+peer.Mode+")")
	}
	if !wide && len(words) > maxNames {
		return strings.Join(words[:maxNames], ", ") + fmt.Sprintf(" and %d more", len(words)-maxNames)
	}
	return strings.Join(words, ", ")
}

func stateColor(state string) string {
	switch state {
	case "Active", "Ready":
		return green
	case "Waiting", "Pending", "Degraded":
		return yellow
	}
	return red
}

// networkBranch is a Network; brief: in a line.
func networkBranch(t api.Topology, brief, wide bool, p paint) branch {
	s := t.Status
	about := []string{s.Type}
	if s.Phase != "" {
		about = append(about, p.as(stateColor(s.Phase), s.Phase))
	}
	b := branch{
		text: fmt.Sprintf("%s (%s): %s", p.as(bold, snapshot.Printable(t.Name)), strings.Join(about, ", "), podsText(s.Pods, s.Nodes, wide)),
	}
	if brief {
		if len(s.Peers) > 0 {
			b.on = append(b.on, branch{text: peersText(s.Peers, wide, p)})
		}
		return b
	}
	add := func(format string, args ...any) { b.on = append(b.on, branch{text: fmt.Sprintf(format, args...)}) }
	router := branch{text: "router " + s.Router}
	for _, subnet := range s.Subnets {
		via := ""
		if len(subnet.Gateways) > 0 {
			via = " via " + strings.Join(subnet.Gateways, " ")
		}
		router.on = append(router.on, branch{
			text: fmt.Sprintf("switch %s: %s%s, %s", subnet.Switch, strings.Join(subnet.CIDRs, " "), via, podsText(subnet.Pods, subnet.Nodes, wide)),
		})
	}
	b.on = append(b.on, router)
	if len(s.ServiceCIDRs) > 0 {
		add("Services of %s", strings.Join(s.ServiceCIDRs, " "))
	}
	for _, g := range s.Gateways {
		add("Gateway %s: %s", g.Name, cmp.Or(strings.Join(g.Addresses, " "), "no address"))
	}
	for _, offer := range s.Offers {
		add("offers its pods to %s (%s)", snapshot.Printable(topology.OfferWords(offer)), offer.Mode)
	}
	peers := s.Peers
	if !wide && len(peers) > maxNames {
		peers = peers[:maxNames]
	}
	for _, peer := range peers {
		text := fmt.Sprintf("%s (%s)", p.as(stateColor(peer.State), snapshot.Printable(topology.Arrow(peer)+" "+peer.Network)), peer.Mode)
		if words := topology.PeerWords(peer); peer.State == "Active" {
			text += ": " + words
		} else {
			text += ": " + strings.TrimSuffix(words, peer.State) + p.as(stateColor(peer.State), peer.State)
		}
		if peer.Message != "" {
			text += ": " + snapshot.Printable(peer.Message)
		}
		b.on = append(b.on, branch{text: text})
	}
	if more := len(s.Peers) - len(peers); more > 0 {
		add("and %s (-o wide has all)", model.Count(more, "more peer"))
	}
	return b
}

func podsText(pods int64, nodes []api.NodePods, wide bool) string {
	text := model.Count(int(pods), "pod")
	if len(nodes) == 0 {
		return text
	}
	words := make([]string, 0, len(nodes))
	for _, n := range nodes {
		words = append(words, fmt.Sprintf("%s %d", n.Node, n.Pods))
	}
	if !wide && len(words) > maxNames {
		return fmt.Sprintf("%s on %s and %d more", text, strings.Join(words[:maxNames], ", "), len(words)-maxNames)
	}
	return text + " on " + strings.Join(words, ", ")
}
