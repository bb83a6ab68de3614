// Package openflow asks a bridge of Open vSwitch how many packets its flows have matched.
//
//	cookies ──▶ one request each ──socket NAME.mgmt──▶ ovs-vswitchd ──▶ how many packets, or the flows themselves
//
// It speaks OpenFlow 1.3, and of it no more than this. It changes nothing on the bridge.
//
// What must stay true: requests name a cookie as a whole, for which ovs-vswitchd has an index; a request that made it look
// at all flows would hold up those that come. Nothing is asked unless somebody calls.
package openflow
