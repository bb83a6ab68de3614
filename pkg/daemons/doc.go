// Package daemons groups the programs that run OVN's own daemons (program atoll-ovn).
//
//	central   the two databases and ovn-northd, as members of raft clusters
//	chassis   a node's Open vSwitch and ovn-controller
//
// It has no code of its own. Packages below it import process, kube and ovs.
package daemons
