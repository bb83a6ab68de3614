package graph

import (
	"maps"
	"slices"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Use counts a policy of a namespace among those that name an owner's port group, or with -1 out of them. Policies of the cluster are of
// namespace "". A group that nobody counts is for all pods of its Network, as the one of those that are isolated is.
func (g *Graph) Use(owner nb.Owner, namespace string, by int) {
	users := g.users[owner]
	if users == nil {
		users = map[string]int{}
		g.users[owner] = users
	}
	if tally(users, namespace, by); len(users) == 0 {
		delete(g.users, owner)
		return
	}
	if p := g.work.pending[owner]; p != nil && p.judges {
		g.work.count(p.scopes, -1)
		p.scopes = g.scopesOf(owner)
		g.work.count(p.scopes, 1)
	}
}

// Users are the namespaces whose policies name an owner's port group, in order.
func (g *Graph) Users(owner nb.Owner) []string { return slices.Sorted(maps.Keys(g.users[owner])) }

// AllowsOnly reports whether a row is a port group that NetworkPolicies alone name, which allow and never deny: a port that is not in it
// may do no more than one that is.
func (g *Graph) AllowsOnly(row nb.Ref) bool {
	holder, wanted := g.Owner(row)
	users := g.users[holder]
	return wanted && len(users) > 0 && users[""] == 0
}

// ForOthers reports whether a row is a port group that NetworkPolicies of other namespaces alone name: an owner's pods are their peers, and
// never their subjects. When the group's row is made it brings the ports that are there.
func (g *Graph) ForOthers(owner nb.Owner, row nb.Ref) bool {
	holder, _ := g.Owner(row)
	return owner.Kind == nb.KindPod && g.AllowsOnly(row) && g.users[holder][owner.Namespace] == 0
}
