// Package inspect answers questions about a running cluster. Each question is a function that returns a value; it prints nothing.
//
//	Check     does OVN have what the cluster's objects ask for?  -> Report
//	Follow    which policy's rule decides about a packet?        -> Trace
//	Explain   does a packet arrive, and what stops it?           -> Explanation
//	Count     what has each policy's rule admitted and dropped?  -> Verdicts
//
// Check compiles every object afresh, with the controller's own code and nothing that a controller remembers, and compares the
// outcome with what the databases hold:
//
//	kube.Feed --objects--> controller.State --desired--> compare --> look --settle--> Report
//	                              |                         ^
//	                        recorder (no writes)            +-- northbound, southbound, a node's Open vSwitch
//
// Package policytrial says what would change if policies were others. Package inspectapi serves all of it as the API inspect.atoll.dev: the program
// atoll-inspect.
//
// What must stay true: nothing is ever written, to no API server and to no database, and no epoch is taken;
// what is still on its way is not reported; a check that could not see everything does not say that all is well.
package inspect
