// Package shutout is the list of nodes that somebody has taken over, and that get nothing.
//
//	atoll node shut-out (package steps) ──▶ list ──▶ signer of certificates, sweeper of chassis, members of OVN's databases,
//	                                                 admission policy atoll-nodes-shut-out
//
// What must stay true: the list comes before everything else. Whoever has a node's credentials asks again and again, and would
// get anew what is taken from them before they are listed. Who cannot read the list does nothing for any node.
package shutout
