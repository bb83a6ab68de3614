// Package check answers atoll check: it looks at the API server, at both databases and at nodes until what differs has settled.
//
//	kube.Feed, northbound, southbound, Open vSwitch --look--> drift --settle--> Report
//	nodes' agents, by package client ---------------NodeChecks--------settle--> Report
//
// What must stay true: nothing is written but what agents repair when they are asked to. What is still on its way is not
// reported. A check that could not see everything does not say that all is well.
package check
