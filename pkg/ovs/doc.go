// Package ovs groups the languages of one node's Open vSwitch.
//
//	vswitch    its database: the ports of pods
//	openflow   its bridges: what flows have matched
//	unixctl    its daemons: the commands of ovs-appctl(8)
//	ipfix      what it samples of packets
//
// It has no code of its own. Packages below it import each other, domain, process and ovn.
package ovs
