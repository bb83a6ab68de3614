package world

import (
	"cmp"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// SetNode records a node. Its heartbeats are no news.
//
// What the node itself was given it has until the controller gives it something else, or another node: while its Node is not
// there, or lacks the annotation, its pods go on, and would lose faces, the API and the way out with the node's address.
func (w *World) SetNode(n *model.Node) {
	w.update(func() bool {
		delete(w.gone, n.Name)
		if n.Name == w.self {
			w.unregistered = false
			last := w.nodes[n.Name]
			if w.remembered = n.Assigned == nil; w.remembered && last != nil {
				n = given(n, last.Assigned)
			}
		}
		news := record(w.nodes, n.Name, n)
		return w.giveUp() || news
	})
}

// DropNode notes that a Node has gone. Another node's is kept until Expire ends it, since its pods and its kubelet often go on,
// unless it is shut out, or nobody knows who is; the node's own without an end.
func (w *World) DropNode(name string, now time.Time) {
	w.update(func() bool {
		if name != w.self {
			if w.shutOut == nil || slices.Contains(w.shutOut.Nodes, name) {
				return w.forgetNode(name)
			}
			if _, already := w.gone[name]; !already && w.nodes[name] != nil {
				w.gone[name] = now.Add(model.KeepNode)
			}
			return false
		}
		w.remembered, w.unregistered = true, true
		return w.giveUp()
	})
}

// SetShutOut says which nodes are shut out. Of those that have gone nothing is kept.
func (w *World) SetShutOut(list *model.ShutOut) {
	w.update(func() (news bool) {
		w.shutOut = list
		for _, name := range list.Nodes {
			if _, gone := w.gone[name]; gone {
				news = w.forgetNode(name) || news
			}
		}
		return news
	})
}

// ShutOut reports whether a node is known to be shut out.
func (w *World) ShutOut(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shutOut != nil && slices.Contains(w.shutOut.Nodes, node)
}

// ShutOutRead says that the list of who is shut out has been read. Without one nobody is.
func (w *World) ShutOutRead() {
	w.update(func() bool {
		w.shutOut = cmp.Or(w.shutOut, &model.ShutOut{})
		return false
	})
}

// forgetNode forgets a node that has gone, and what its agent said.
func (w *World) forgetNode(name string) bool {
	delete(w.gone, name)
	news := forget(w.nodes, name)
	if _, unsaid := w.unsaid[name]; unsaid {
		delete(w.unsaid, name)
		news = forget(w.reports, name) || news
	}
	return news
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
