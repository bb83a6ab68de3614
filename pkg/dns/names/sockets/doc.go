// Package sockets opens sockets in portholes for a program that may not enter them. Who parses what tenants' pods send has no
// right on the node then, and who has one parses nothing of theirs.
//
//	atoll-dns ──(which addresses has a porthole? open sockets at them)──▶ atoll-dns portholes (CAP_SYS_ADMIN, CAP_NET_BIND_SERVICE)
//	          ◀──(addresses; the sockets, by SCM_RIGHTS)──
//
// A request and its reply are one message each, as JSON, on a connection of their own.
//
// What must stay true: nothing is opened but sockets at port 53 of portholes, at addresses that their loopback interfaces have.
package sockets

import "net/netip"

// Port is where DNS servers are asked (RFC 1035).
const Port = 53

// Bounds of messages. The kernel takes 253 sockets with one.
const (
	maxRequest   = 8 << 10
	maxReply     = 16 << 10
	maxAddresses = 64
)

// request asks for the addresses of a porthole or, with addresses, for sockets at these: one of UDP and one of TCP for each.
type request struct {
	// Namespace is the path of the porthole's network namespace.
	Namespace string
	Addresses []netip.Addr `json:",omitempty"`
}

// reply has the addresses, or says why there are none.
type reply struct {
	Addresses []netip.Addr `json:",omitempty"`
	Error     string       `json:",omitempty"`
}
