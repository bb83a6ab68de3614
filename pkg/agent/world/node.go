package world

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/model"
)

// SetNode records a node. Its heartbeats are no news.
//
// What the node itself was given it has until the controller gives it something else, or another node: while its Node is not there, or lacks the annotation, its
// pods go on, and would lose faces, the API and the way out with the node's address.
func (w *World) SetNode(n *model.Node) {
	w.update(func() bool {
		if n.Name == w.self {
			last := w.nodes[n.Name]
			if w.remembered = n.Assigned == nil; w.remembered && last != nil {
				n = given(n, last.Assigned)
			}
		}
		news := record(w.nodes, n.Name, n)
		return w.giveUp() || news
	})
}

// DropNode forgets a node that has gone, but the node itself.
func (w *World) DropNode(name string) {
	w.update(func() bool {
		if name != w.self {
			return forget(w.nodes, name)
		}
		w.remembered = true
		return w.giveUp()
	})
}

// giveUp forgets what the node itself was given, if that is not written on its Node any more and another node has a part of it now.
func (w *World) giveUp() (news bool) {
	self := w.nodes[w.self]
	if !w.remembered || self == nil || self.Assigned == nil {
		return false
	}
	for name, other := range w.nodes {
		if name != w.self && other.Assigned != nil && shares(self.Assigned, other.Assigned) {
			w.nodes[w.self] = given(self, nil)
			return true
		}
	}
	return false
}

// given is a node that was given something else.
func given(n *model.Node, a *model.NodeNetwork) *model.Node {
	out := *n
	out.Assigned = a
	return &out
}

// shares reports whether two nodes were given the same faces, or an address of the same Network.
func shares(a, b *model.NodeNetwork) bool {
	return slices.ContainsFunc(a.Faces, func(block netip.Prefix) bool { return slices.ContainsFunc(b.Faces, block.Overlaps) }) ||
		a.NetworkUID == b.NetworkUID && slices.ContainsFunc(a.Addresses, func(p netip.Prefix) bool {
			// Whatever the subnet was then.
			return slices.ContainsFunc(b.Addresses, func(o netip.Prefix) bool { return o.Addr() == p.Addr() })
		})
}
