package intake

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// maxNodeAnnotation bounds AnnotationNode, in bytes.
const maxNodeAnnotation = 4 << 10

// Node reads a node. An annotation that is not of this very Node, or cannot be read, counts as none. Of the addresses the first
// model.MaxNodeAddresses count that a machine can have as its own: each one becomes an element of every porthole's rules, on every node.
func Node(in *corev1.Node) *model.Node {
	out := &model.Node{
		Name:     in.Name,
		UID:      string(in.UID),
		Created:  in.CreationTimestamp.Time,
		Labels:   maps.Clone(in.Labels),
		Assigned: NodeNetwork(in.Annotations[model.AnnotationNode], string(in.UID)),
	}
	for _, a := range in.Status.Addresses {
		if a.Type != corev1.NodeInternalIP && a.Type != corev1.NodeExternalIP {
			continue
		}
		address, err := parseAddr(a.Address)
		if err != nil || !address.IsGlobalUnicast() {
			continue
		}
		if out.Addresses = append(out.Addresses, address); len(out.Addresses) == model.MaxNodeAddresses {
			break
		}
	}
	slices.SortFunc(out.Addresses, netip.Addr.Compare)
	out.Addresses = slices.Compact(out.Addresses)
	return out
}

// NodeNetwork reads AnnotationNode of the Node with that UID; nil when there is none that can be used.
func NodeNetwork(text, uid string) *model.NodeNetwork {
	if text == "" || len(text) > maxNodeAnnotation {
		return nil
	}
	var n model.NodeNetwork
	if err := json.Unmarshal([]byte(text), &n); err != nil || n.NodeUID != uid {
		return nil
	}
	const families = 2
	if len(n.Faces) > families || len(n.Addresses) > families || len(n.Gateways) > families {
		return nil
	}
	for _, f := range slices.Concat(n.Faces, n.Flat) {
		if !f.IsValid() || f != f.Masked() || !usable(f.Addr()) {
			return nil
		}
	}
	for _, a := range n.Addresses {
		if !a.IsValid() || !usable(a.Addr()) {
			return nil
		}
	}
	for _, g := range n.Gateways {
		if !usable(g) {
			return nil
		}
	}
	return &n
}

// ShutOut reads the list of nodes that are shut out, whatever it says of each.
func ShutOut(in *corev1.ConfigMap) *model.ShutOut {
	return &model.ShutOut{Nodes: slices.Sorted(maps.Keys(in.Data))}
}

// NodeAnnotation is the text of AnnotationNode.
func NodeAnnotation(n model.NodeNetwork) string { return jsonOf(n) }
