// Package agree compares what the product makes of network policy with what the oracle says.
//
//	objects --intake--> controller.State --compile--> rows --> northbound database --ovn-northd--> logical flows
//	packet -----------------------------------------------------------ovn-trace--> arrived, or not    <-- the same? --> oracle
//
// Everything on the first line is the product, OVN's own programs included; nothing of it is used by the oracle.
//
// What must stay true: a case depends on nothing that was there before it, so that one that disagrees can be made
// smaller: State is made anew, and the databases are emptied.
package agree
