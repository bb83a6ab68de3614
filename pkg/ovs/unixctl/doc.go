// Package unixctl sends commands to the daemons of Open vSwitch and OVN, as ovs-appctl(8) does, and judges which of them only read.
//
// The protocol is JSON-RPC 1.0 (RFC 7047, section 4) over a unix socket: a method is a command, its parameters are texts, and so
// is the result or the error. (Open vSwitch, lib/unixctl.c.)
//
// What must stay true: a command that is not known is one that writes.
package unixctl
