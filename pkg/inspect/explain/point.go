package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/visibility"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
)

// own reports whether the asker may see the name of a pod.
func (t *trial) own(key model.PodKey) bool {
	return t.limits == nil || t.limits.Namespaces[key.Namespace]
}

// mayBeTold reports whether the asker may learn that the packet was at a point. An asker with limits learns of:
//
//   - links of the asker's own pods;
//   - portholes of the asker's Networks;
//   - links between nodes, if the packet is for one of the asker's pods;
//   - packets that leave the sender's node for the dialled address, outside tunnels, if that address leads to no pod.
//
// Any other point could reveal where other tenants' pods are and whom they talk to.
func (t *trial) mayBeTold(s seenPoint) bool {
	if t.limits == nil {
		return true
	}
	if t.limits.Tells(strings.Join([]string{t.where(s), portText(s.From), portText(s.To)}, " ")) {
		return false
	}
	switch s.Kind {
	case nodeapi.KindPod:
		return t.own(t.podOf(s)) && t.podOf(s) != model.PodKey{}
	case nodeapi.KindPorthole, nodeapi.KindHost:
		return t.limits.Networks[s.Network]
	}
	if t.toOwnOnly() {
		return true
	}
	there := s.To.Addr()
	if s.Answer {
		there = s.From.Addr()
	}
	return s.node == t.node && !s.Tunnel.To.IsValid() && there == t.target && t.toNoPod()
}

// toNoPod reports whether the dialled address neither belongs to a pod nor leads to one.
func (t *trial) toNoPod() bool {
	_, face := t.limits.FaceOf(t.target)
	return !face && !slices.ContainsFunc(t.waysOf(), func(w Way) bool { return w.end != model.PodKey{} })
}

// toOwnOnly reports whether the packet may reach, or has reached, at least one pod, and the asker may see all of these pods.
func (t *trial) toOwnOnly() bool {
	var ends []model.PodKey
	for _, w := range t.waysOf() {
		if w.end == (model.PodKey{}) {
			// The packet is stopped, or reaches no pod: it is unknown whose objects it meets on the way.
			return false
		}
		ends = append(ends, w.end)
	}
	for _, s := range t.points {
		if s.Kind == nodeapi.KindPod {
			ends = append(ends, t.podOf(s))
		}
	}
	return len(ends) > 0 && !slices.ContainsFunc(ends, func(key model.PodKey) bool { return !t.own(key) || key == model.PodKey{} })
}

// networkOf returns the Network of a point, as far as the asker may see it.
func (t *trial) networkOf(s seenPoint) string {
	if s.Kind == nodeapi.KindPod {
		return t.home[t.podOf(s)]
	}
	return s.Network
}

// where describes an interface, and the direction of the packet there, in words.
func (t *trial) where(s seenPoint) string {
	way := "comes in by"
	if s.Out {
		way = "goes out by"
	}
	if s.Tunnel.To.IsValid() {
		return fmt.Sprintf("%s %s, in a tunnel from %s to %s", way, s.Interface, t.tunnelEnd(s.Tunnel.From.String()),
			t.tunnelEnd(s.Tunnel.To.String()))
	}
	direction := func(out, in string) string {
		if s.Out {
			return out
		}
		return in
	}
	switch s.Kind {
	case nodeapi.KindPod:
		name := "a pod that is not known"
		if key := t.podOf(s); key != (model.PodKey{}) {
			name = "pod " + key.String()
		}
		return fmt.Sprintf("%s the link of %s", direction("to", "from"), name)
	case nodeapi.KindPorthole:
		return fmt.Sprintf("%s the porthole of Network %s", direction("into", "out of"), s.Network) + ", at OVN's side"
	case nodeapi.KindHost:
		return fmt.Sprintf("%s the porthole of Network %s", direction("into", "out of"), s.Network) + ", at the node's side"
	case nodeapi.KindNode:
		return fmt.Sprintf("%s %s, between the node and OVN", way, s.Interface)
	case nodeapi.KindTunnel:
		return fmt.Sprintf("%s %s, the tunnels between nodes", way, s.Interface)
	}
	return way + " " + s.Interface
}

func (t *trial) tunnelEnd(address string) string {
	a := visibility.AddressIn(address)
	return cmp.Or(t.tunnels[a], address)
}

// place describes a point for use in a sentence.
func (t *trial) place(s seenPoint) string {
	return fmt.Sprintf("node %s, %s", s.node, t.where(s))
}

// unobserved returns the nodes that were not watched, or not to the end, each with the reason. It hides the nodes of other tenants'
// pods.
func (t *trial) unobserved() (out []string) {
	hidden := false
	for _, o := range t.seen {
		switch {
		case o.Problem == "":
		case t.limits == nil, o.Node == t.node, t.toOwnOnly():
			out = append(out, fmt.Sprintf("node %s is not observable: %s", o.Node, o.Problem))
		default:
			hidden = true
		}
	}
	for _, node := range nodesOf(t.waysOf(), t.node) {
		if slices.ContainsFunc(t.seen, func(o Observed) bool { return o.Node == node }) {
			continue
		}
		if t.limits == nil || t.toOwnOnly() {
			out = append(out, fmt.Sprintf("node %s is not observed: %d nodes are at most", node, maxObserved))
			continue
		}
		hidden = true
	}
	if hidden {
		out = append(out, "what is past the pod's own node is not all observable")
	}
	return out
}
