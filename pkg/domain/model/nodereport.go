package model

import "net/netip"

// What a NodeReport has at most. An agent that was taken over can take no more than these addresses from others.
const (
	MaxReportedAddresses = 256
	MaxReportedTunnels   = 16
	MaxReportedDNS       = 8
)

// NodeReport is what the agent of a node says of it. All lists are sorted.
type NodeReport struct {
	// Node is its name, NodeUID the UID of the Node that it belongs to.
	Node, NodeUID string
	// Addresses are those of the node's interfaces, Tunnels those at which it takes tunnels.
	Addresses, Tunnels []netip.Addr
	// DNS are the addresses of the cluster's DNS that the agent was told.
	DNS []netip.Addr
	// Version is the agent's.
	Version string
}
