package world

import (
	"time"

	"github.com/atoll-net/atoll/pkg/model"
)

// SetNode records a node. Its heartbeats are no news.
//
// What the node itself was given it has until the controller gives it something else, or another node: while its Node is not there, or lacks the annotation, its
// pods go on, and would lose faces, the API and the way out with the node's address.
func (w *World) SetNode(n *model.Node) {
	w.update(func() bool {
		delete(w.gone, n.Name)
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

// DropNode notes that a Node has gone. Another node's is kept until Expire ends it, since its pods and its kubelet often go on; the node's own without an end.
func (w *World) DropNode(name string, now time.Time) {
	w.update(func() bool {
		if name != w.self {
			if _, already := w.gone[name]; !already && w.nodes[name] != nil {
				w.gone[name] = now.Add(model.KeepNode)
			}
			return false
		}
		w.remembered = true
		return w.giveUp()
	})
}

// Expire forgets the Nodes that have gone long enough ago, and what their agents said.
func (w *World) Expire(now time.Time) {
	w.update(func() (news bool) {
		for name, until := range w.gone {
			if !until.After(now) {
				delete(w.gone, name)
				news = forget(w.nodes, name) || news
			}
		}
		for name, until := range w.unsaid {
			if !until.After(now) {
				delete(w.unsaid, name)
				news = forget(w.reports, name) || news
			}
		}
		return news
	})
}

// giveUp forgets what the node itself was given, if that is not written on its Node any more and another node has a part of it now.
func (w *World) giveUp() (news bool) {
	self := w.nodes[w.self]
	if !w.remembered || self == nil || self.Assigned == nil {
		return false
	}
	for name, other := range w.nodes {
		if _, gone := w.gone[name]; !gone && name != w.self && other.Assigned != nil && self.Assigned.Shares(other.Assigned) {
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
