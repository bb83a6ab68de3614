// Package frame writes and reads Ethernet frames: the first packet of a connection, its first answer, and requests of ARP.
//
// In goes what a test wants to send, as values; out come bytes that a switch, a firewall with connection tracking and a
// load balancer take for real, with all lengths and checksums. The other way round, of a frame that arrived it says which
// packet that is. Nothing of the host's own network stack has a part in it, so that a test may send what no socket would.
package frame
