// Package cli is the command line for those who run Atoll: the program atoll, which is kubectl's plugin too.
//
// Its first command, check, judges a running cluster. It compiles every object afresh, with the controller's own
// code and nothing that a controller remembers, and compares the outcome with what the databases hold:
//
//	kube.Feed --objects--> controller.State --wanted--> compare --> look --settle--> Report --> table, JSON
//	                              |                        ^
//	                        recorder (no writes)           +-- northbound, southbound, a node's Open vSwitch
//
// What must stay true: nothing is ever written, to no API server and to no database, and no epoch is taken;
// what is still on its way is not reported; a check that could not see everything does not say that all is well.
package cli
