// Package node groups what is done in one node's kernel, and how others ask the node for it.
//
//	netdev     the links of pods
//	porthole   the namespace between a Network and the node: its links, routes and nftables rules
//	capture    copies of packets
//	ping       packets that are sent and answered
//	observe    marked packets on their way through the node
//	nodeapi    the requests that atoll-inspect sends to a node's agent, for both sides
//
// It has no code of its own. Packages below it import each other, domain, process and ovs, and the types of the API inspect.atoll.dev:
// what an agent finds on its node, users are told as it is.
package node
