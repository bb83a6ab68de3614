// Package openflow asks a bridge of Open vSwitch how many packets its flows have matched.
//
//	cookies ──▶ one request each ──socket NAME.mgmt──▶ ovs-vswitchd ──▶ how many packets, or the flows themselves
//
// It speaks OpenFlow 1.3, and of it no more than this. All that it changes on a bridge is a flow that drops what no rows of OVN's can drop.
// See Drop. A Gate lets others speak to a bridge, in any version, as long as they change nothing.
//
// What must stay true: requests name a cookie as a whole, for which ovs-vswitchd has an index; a request that made it look
// at all flows would hold up those that come. Nothing is asked unless somebody calls.
package openflow
