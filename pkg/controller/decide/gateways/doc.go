// Package gateways decides about Gateways of Gateway API: which are ours, which addresses they have, which routes attach to them,
// and where their ports lead.
//
//	classes, Gateways, routes, grants --Take--> Claim --ledger--> addresses --> Compile --> load balancers
//	Networks, namespaces, Services --Reads--> the Gateways that looked at them     Report --> statuses
//
// A Gateway keeps its addresses for as long as it asks for them and its Network has them. An older Gateway comes before a younger
// one, and a route that may not attach leads nowhere.
package gateways
