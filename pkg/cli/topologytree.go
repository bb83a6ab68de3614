package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect"
	"github.com/atoll-net/atoll/pkg/model"
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

// tenants are Networks by whose they are, the cluster's first.
func tenants(all []api.Topology) (names []string, of map[string][]api.Topology) {
	of = map[string][]api.Topology{}
	for _, t := range all {
		of[t.Status.Tenant] = append(of[t.Status.Tenant], t)
	}
	return slices.Sorted(maps.Keys(of)), of
}

// whoseNetworks names a group of Networks.
func whoseNetworks(tenant string) string {
	if tenant == "" {
		return "the cluster's"
	}
	return "tenant " + tenant
}

func podsOf(all []api.Topology) (pods int64) {
	for _, t := range all {
		pods += t.Status.Pods
	}
	return pods
}

// topologyTitle says what there is in a line.
func topologyTitle(all []api.Topology) string {
	names, of := tenants(all)
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
	return fmt.Sprintf("%s, %s, %s on %s", model.Count(len(all), "Network"), model.Count(tenants, "tenant"), model.Count(int(podsOf(all)), "pod"), model.Count(len(nodes), "node"))
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
	names, of := tenants(all)
	for _, tenant := range names {
		b := branch{text: fmt.Sprintf("%s: %s, %s", p.as(bold, inspect.Printable(whoseNetworks(tenant))), model.Count(len(of[tenant]), "Network"), model.Count(int(podsOf(of[tenant])), "pod"))}
		shown, alike := of[tenant], []alikes(nil)
		if folded {
			shown, alike = fold(shown)
		}
		for _, t := range shown {
			b.on = append(b.on, networkBranch(t, folded, wide, p))
		}
		for _, a := range alike {
			b.on = append(b.on, branch{text: a.text(p)})
		}
		root.on = append(root.on, b)
	}
	root.write(text, "")
	if folded {
		fmt.Fprintf(text, "\natoll topology NAME shows one with its switches, --all each of them.\n")
	}
}

// alikes are Networks with the same peers.
type alikes struct {
	peers []api.Peer
	all   []api.Topology
}

func (a alikes) text(p paint) string {
	text := model.Count(len(a.all), "Network") + " without peers"
	if len(a.peers) > 0 {
		text = model.Count(len(a.all), "Network") + " with " + peersText(a.peers, false, p)
	}
	return text + ": " + model.Count(int(podsOf(a.all)), "pod")
}

// fold takes those out of some Networks that have no peers, and those of which many have the same peers.
func fold(all []api.Topology) (shown []api.Topology, alike []alikes) {
	key := func(t api.Topology) string {
		words := make([]string, 0, len(t.Status.Peers))
		for _, peer := range t.Status.Peers {
			words = append(words, fmt.Sprint(arrow(peer), peer.Network, " ", peer.Mode, " ", peer.State))
		}
		slices.Sort(words)
		return strings.Join(words, "\n")
	}
	groups := map[string][]api.Topology{}
	for _, t := range all {
		groups[key(t)] = append(groups[key(t)], t)
	}
	for _, k := range slices.Sorted(maps.Keys(groups)) {
		if group := groups[k]; k == "" || len(group) > maxNames {
			alike = append(alike, alikes{group[0].Status.Peers, group})
		} else {
			shown = append(shown, group...)
		}
	}
	slices.SortFunc(shown, func(a, b api.Topology) int { return cmp.Compare(a.Name, b.Name) })
	return shown, alike
}

// peersText are peers in a line.
func peersText(peers []api.Peer, wide bool, p paint) string {
	words := make([]string, 0, len(peers))
	for _, peer := range peers {
		words = append(words, p.as(stateColor(peer.State), inspect.Printable(arrow(peer)+" "+peer.Network))+" ("+peer.Mode+")")
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
	b := branch{text: fmt.Sprintf("%s (%s): %s", p.as(bold, inspect.Printable(t.Name)), strings.Join(about, ", "), podsText(s.Pods, s.Nodes, wide))}
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
		router.on = append(router.on, branch{text: fmt.Sprintf("switch %s: %s%s, %s", subnet.Switch, strings.Join(subnet.CIDRs, " "), via, podsText(subnet.Pods, subnet.Nodes, wide))})
	}
	b.on = append(b.on, router)
	if len(s.ServiceCIDRs) > 0 {
		add("Services of %s", strings.Join(s.ServiceCIDRs, " "))
	}
	for _, g := range s.Gateways {
		add("Gateway %s: %s", g.Name, cmp.Or(strings.Join(g.Addresses, " "), "no address"))
	}
	for _, offer := range s.Offers {
		add("offers its pods to %s (%s)", inspect.Printable(offerText(offer)), offer.Mode)
	}
	peers := s.Peers
	if !wide && len(peers) > maxNames {
		peers = peers[:maxNames]
	}
	for _, peer := range peers {
		text := fmt.Sprintf("%s (%s)", p.as(stateColor(peer.State), inspect.Printable(arrow(peer)+" "+peer.Network)), peer.Mode)
		switch {
		case peer.State != "Active":
			text += fmt.Sprintf(": %s, %s", strings.ToLower(peer.Direction), p.as(stateColor(peer.State), peer.State))
		case peer.Direction == "Serves":
			text += ": its pods reach these"
		default:
			text += ": these pods reach its"
		}
		if peer.Message != "" {
			text += ": " + inspect.Printable(peer.Message)
		}
		b.on = append(b.on, branch{text: text})
	}
	if more := len(s.Peers) - len(peers); more > 0 {
		add("and %s (-o wide has all)", model.Count(more, "more peer"))
	}
	return b
}

func offerText(o api.TopologyOffer) string {
	switch {
	case o.All:
		return "all Networks"
	case o.Tenant != "":
		return "Networks of tenant " + o.Tenant
	}
	return "Network " + o.Network
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
