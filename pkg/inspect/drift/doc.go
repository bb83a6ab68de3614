// Package drift compares what OVN and the nodes have with what the cluster's objects ask for, and names each Difference.
//
// It compiles every object afresh, with the controller's own code and nothing that a controller remembers:
//
//	objects --> decide.State --> Desired --> Compare... --> []Difference
//	                 |               ^
//	             recorder            +-- northbound rows, southbound bindings, interfaces of a node's Open vSwitch
//
// What must stay true: it writes nothing. Rows of others are not looked at, as the controller does not look at them.
package drift
