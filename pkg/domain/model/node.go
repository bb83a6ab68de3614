package model

import (
	"net/netip"
	"slices"
	"time"
)

// AnnotationNode on a Node is the JSON of a NodeNetwork: what the controller gave the node. The node's agent
// reads it.
const AnnotationNode = Group + "/node"

// Node is a node of the cluster.
type Node struct {
	Name    string
	UID     string
	Created time.Time
	// Labels are all labels; policies ask for them.
	Labels map[string]string
	// Addresses are the node's own, internal and external, sorted: MaxNodeAddresses at most.
	Addresses []netip.Addr
	// Assigned is what an earlier decision wrote on the node; nil when there is none, none that can be read, or
	// one of another Node.
	Assigned *NodeNetwork
	// Gone: there is no such Node any more, and what was known of it is kept for a while.
	Gone bool
}

// MaxNodeAddresses is how many addresses of a Node's status count. A kubelet writes them, and Kubernetes bounds only the object's
// size.
const MaxNodeAddresses = 64

// KeepNode is how long what a Node has is kept for the pods of a node whose Node has gone, when it does not come again: as long
// as the node's chassis.
const KeepNode = 5 * time.Minute

// FaceBlockBits is the size of a node's block of faces, as the number of its bits: 512 addresses, more than a kubelet runs pods.
const FaceBlockBits = 9

// NodeNetwork is what a node has of the cluster's network: its place in the default Network and its faces.
type NodeNetwork struct {
	// NodeUID is the UID of the Node that it was decided for: another one of the same name gets its own.
	NodeUID string `json:"nodeUID"`
	// Network is the name of the default Network, NetworkUID its UID.
	Network    string `json:"network,omitempty"`
	NetworkUID string `json:"networkUID,omitempty"`
	// MAC and Addresses are those of the node's interface NodeInterface in the default Network; each address with
	// the prefix length of its subnet, one per IP family.
	MAC       string         `json:"mac,omitempty"`
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// Gateways are the default Network's router in that subnet: the way to the faces of other nodes.
	Gateways []netip.Addr `json:"gateways,omitempty"`
	// Flat are the ranges of the flat Networks beside the default one: their pods are reached by the same way.
	Flat []netip.Prefix `json:"flat,omitempty"`
	// Faces are the blocks that the node's pods get their faces from: one per IP family.
	Faces []netip.Prefix `json:"faces"`
}

// Shares reports whether two nodes were given the same faces, or an address of the same Network.
func (n *NodeNetwork) Shares(with *NodeNetwork) bool {
	return slices.ContainsFunc(n.Faces, func(block netip.Prefix) bool { return slices.ContainsFunc(with.Faces, block.Overlaps) }) ||
		n.NetworkUID == with.NetworkUID && slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool {
			return slices.ContainsFunc(with.Addresses, func(other netip.Prefix) bool { return p.Addr() == other.Addr() })
		})
}

// ShutOut is the list of nodes that somebody has taken over, and that get nothing, sorted.
type ShutOut struct {
	Nodes []string
}

// NodePortName is the name of the logical switch port of a node's interface in the default Network. Names of pods'
// ports hold a slash and no colon, so that the two never meet.
func NodePortName(network, node string) string { return network + ":node:" + node }
