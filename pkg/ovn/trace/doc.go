// Package trace follows the first packet of a connection through the ACLs that the northbound database has, and says which
// one decides about it.
//
//	rows --New--> Database;  packet, Database --Send, Receive--> Decision
//
// It reads rows and not the objects that they were made of: what it says is what OVN does, whoever wrote the rows and
// whether or not they are what a policy asks for. It is pure.
//
// What must stay true: a match is understood as ovn-sb(5) defines it (Logical_Flow, match), or it is an error that names
// what is not understood. No ACL is passed over.
package trace
