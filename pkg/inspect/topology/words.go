package topology

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// FoldFrom is how many Networks are shown each for itself; of more, those that are alike are counted.
const FoldFrom = 30

// foldAlike is how many may have the same peers and are still shown each for itself.
const foldAlike = 8

// Arrow says who reaches whom: -> is that pods of the Network that tells reach those of the peer, <- the other way, ? not so yet.
func Arrow(p api.Peer) string {
	switch {
	case p.State != "Active":
		return "?"
	case p.Direction == "Serves":
		return "<-"
	}
	return "->"
}

// PeerWords say what a peer is to the Network that tells of it; without its Message.
func PeerWords(p api.Peer) string {
	switch {
	case p.State != "Active":
		return strings.ToLower(p.Direction) + ", " + p.State
	case p.Direction == "Serves":
		return "its pods reach these"
	}
	return "these pods reach its"
}

// OfferWords say to whom a Network offers its pods.
func OfferWords(o api.TopologyOffer) string {
	switch {
	case o.All:
		return "all Networks"
	case o.Tenant != "":
		return "Networks of tenant " + o.Tenant
	}
	return "Network " + o.Network
}

// TenantWords name a group of Networks.
func TenantWords(tenant string) string {
	if tenant == "" {
		return "the cluster's"
	}
	return "tenant " + tenant
}

// ByTenant are Networks by whose they are, the cluster's first.
func ByTenant(all []api.Topology) (names []string, groups map[string][]api.Topology) {
	groups = map[string][]api.Topology{}
	for _, t := range all {
		groups[t.Status.Tenant] = append(groups[t.Status.Tenant], t)
	}
	return slices.Sorted(maps.Keys(groups)), groups
}

// PodsOf counts the pods of Networks.
func PodsOf(all []api.Topology) (pods int64) {
	for _, t := range all {
		pods += t.Status.Pods
	}
	return pods
}

// Alike are Networks with the same peers, which may be none.
type Alike struct {
	Peers    []api.Peer
	Networks []api.Topology
}

// Fold takes those out of some Networks that have no peers, and those of which many have the same peers.
func Fold(all []api.Topology) (shown []api.Topology, alike []Alike) {
	key := func(t api.Topology) string {
		words := make([]string, 0, len(t.Status.Peers))
		for _, peer := range t.Status.Peers {
			words = append(words, strings.Join([]string{Arrow(peer), peer.Network, peer.Mode, peer.State}, " "))
		}
		slices.Sort(words)
		return strings.Join(words, "\n")
	}
	groups := map[string][]api.Topology{}
	for _, t := range all {
		groups[key(t)] = append(groups[key(t)], t)
	}
	for _, k := range slices.Sorted(maps.Keys(groups)) {
		if group := groups[k]; k == "" || len(group) > foldAlike {
			alike = append(alike, Alike{group[0].Status.Peers, group})
		} else {
			shown = append(shown, group...)
		}
	}
	slices.SortFunc(shown, func(a, b api.Topology) int { return cmp.Compare(a.Name, b.Name) })
	return shown, alike
}

// Reach is that pods of one Network reach those of another, or are to.
type Reach struct {
	// From and To are where the Networks are drawn.
	From, To string
	// Mode and State are those of the peer. Both: it is so in both directions.
	Mode, State string
	Both        bool
}

// Reaches are who reaches whom, sorted, what is so in both directions once. place says where a Network is drawn.
func Reaches(all []api.Topology, place func(network string) string) (out []Reach) {
	seen := map[Reach]bool{}
	for _, t := range all {
		for _, peer := range t.Status.Peers {
			r := Reach{From: place(t.Name), To: place(peer.Network), Mode: peer.Mode, State: peer.State}
			if peer.Direction == "Serves" {
				r.From, r.To = r.To, r.From
			}
			seen[r] = true
		}
	}
	for r := range seen {
		back := Reach{From: r.To, To: r.From, Mode: r.Mode, State: r.State}
		if seen[back] && r.To < r.From {
			continue
		}
		r.Both = seen[back]
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Reach) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.State, b.State))
	})
	return out
}
