// Package absent keeps Nodes that have gone while their pods go on: a kubelet registers its Node again within seconds, and its
// pods do not end meanwhile. All other stages see such a Node as it was last.
//
//	changes of Nodes, pods, nodes that are shut out; rows of an earlier controller ──▶ Take ──▶ changes of Nodes
//
// What must stay true: a node that is shut out is not kept, nor is one without pods, nor any for longer than model.KeepNode. A
// Node that is there needs nothing that one which has gone has. One that has gone gets nothing new.
package absent

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Pods are those of nodes.
type Pods interface {
	// On reports whether a node has pods.
	On(node string) bool
}

// Present are the nodes that are there.
type Present interface {
	// Lacks reports whether one lacks anything.
	Lacks() bool
}

// Nodes are those that are there, and those that are kept.
type Nodes struct {
	pods    Pods
	present Present
	// home is the name of the default Network, network its UID.
	home, network string

	now        time.Time
	live, kept map[string]*model.Node
	until      *pass.Timers[string]
	shutOut    []string
	// rows are what an earlier controller left of nodes. They are looked at once: whatever goes later is seen going.
	rows   map[string][]nb.Row
	looked bool
}

// New makes a cluster without Nodes, whose default Network has a name.
func New(home string, pods Pods, present Present) *Nodes {
	return &Nodes{
		pods: pods, present: present, home: home, live: map[string]*model.Node{}, kept: map[string]*model.Node{}, until: pass.NewTimers[string](),
	}
}

// Turn moves time on.
func (n *Nodes) Turn(now time.Time) { n.now = now }

// Next is when something changes by nothing but time; zero: never.
func (n *Nodes) Next() time.Time {
	if len(n.kept) == 0 {
		return time.Time{}
	}
	if n.present.Lacks() {
		return n.now
	}
	return n.until.Next()
}

// Connected takes the rows that the database has. The next Take finds in them the nodes that have gone while no controller looked.
func (n *Nodes) Connected(rows func(nb.Table) []nb.Row) {
	if n.looked {
		return
	}
	n.looked, n.rows = true, map[string][]nb.Row{}
	for _, table := range []nb.Table{nb.TableLogicalSwitchPort, nb.TableStaticRoute} {
		for _, row := range rows(table) {
			if owner, ok := nb.ParseOwner(row.Owned()[nb.KeyOwner]); ok && owner.Kind == nb.KindNode {
				n.rows[owner.Name] = append(n.rows[owner.Name], row)
			}
		}
	}
}

// Take takes changes in, and returns those of Nodes as others are to see them. The pods have been taken in.
func (n *Nodes) Take(c model.Changes) map[string]*model.Node {
	if network := c.Networks[n.home]; network != nil {
		n.network = network.UID
	}
	for _, list := range c.ShutOut {
		n.shutOut = nil
		if list != nil {
			n.shutOut = list.Nodes
		}
	}
	out := make(map[string]*model.Node, len(c.Nodes))
	for name, node := range c.Nodes {
		last := n.live[name]
		switch {
		case node != nil:
			n.live[name], out[name] = node, node
			n.drop(name)
		case last != nil:
			delete(n.live, name)
			out[name] = n.keep(*last)
		case n.kept[name] == nil:
			out[name] = nil
		}
	}
	found := n.find()
	for _, node := range found {
		out[node.Name] = n.keep(node)
	}
	for _, name := range n.over(len(c.Nodes)+len(found) > 0) {
		n.drop(name)
		out[name] = nil
	}
	return out
}

func (n *Nodes) keep(node model.Node) *model.Node {
	node.Gone = true
	n.kept[node.Name] = &node
	n.until.Set(node.Name, n.now.Add(model.KeepNode))
	return &node
}

func (n *Nodes) drop(name string) {
	delete(n.kept, name)
	n.until.Set(name, time.Time{})
}

// find are the nodes that have gone while no controller looked, as far as their rows tell of them, and nobody has anything of it now.
func (n *Nodes) find() (out []model.Node) {
	for _, name := range pass.Sorted(n.rows) {
		had, ok := compile.NodeOf(n.network, name, n.rows[name])
		if !ok || n.live[name] != nil || n.kept[name] != nil {
			continue
		}
		taken := func(other *model.Node) bool { return other.Assigned != nil && other.Assigned.Shares(&had) }
		if !slices.ContainsFunc(slices.Collect(maps.Values(n.live)), taken) {
			out = append(out, model.Node{Name: name, UID: had.NodeUID, Assigned: &had})
		}
	}
	n.rows = nil
	return out
}

// over are those that are kept no longer. changed: there are other Nodes than before.
func (n *Nodes) over(changed bool) (out []string) {
	ended := n.until.Turn(n.now)
	if len(n.kept) == 0 {
		return nil
	}
	hosts := map[netip.Addr]struct{}{}
	if changed {
		for _, node := range n.live {
			for _, a := range node.Addresses {
				hosts[a] = struct{}{}
			}
		}
	}
	another := func(a netip.Addr) bool { _, has := hosts[a]; return has }
	lacks := n.present.Lacks()
	for name, node := range n.kept {
		if lacks || !n.pods.On(name) || slices.Contains(ended, name) || slices.Contains(n.shutOut, name) ||
			slices.ContainsFunc(node.Addresses, another) {
			out = append(out, name)
		}
	}
	return out
}
