// Package vswitch keeps the ports of pods and of portholes in a node's Open vSwitch database.
//
// In flow Ports (values only); out flows one transaction per change, and what ovs-vswitchd and
// ovn-controller report back through the monitor:
//
//	Attach ──transaction──▶ ovsdb-server ──monitor──▶ cache ──▶ Installed (waits for ovn-installed)
//	                                                   └─────▶ Changed (connected anew, or the bridge was made)
//
// What must stay true:
//
//   - Only rows that carry our external_ids are changed or removed.
//   - At most one port of ours has a given iface-id: the transaction that adds one removes the older.
//   - Nothing polls: who waits is woken by the monitor and then looks at the cache.
//
// The row types hold only the columns that are used, and only these are monitored: Open vSwitch rewrites an
// interface's statistics every few seconds.
package vswitch
