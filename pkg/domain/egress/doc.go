// Package egress has the rule by which what a pod sends past its Network is judged: to the node's DNS, the Kubernetes API, faces,
// the infrastructure and the outside.
//
//	Rules ──Steps──▶ chain "out" of a porthole (pkg/node/porthole), each packet
//	   └────Judge──▶ whether a connection's first packet passes, and why (pkg/inspect/explain)
//
// In go values; out comes a Verdict. What must stay true: the order of the rules stands in Steps and nowhere else, and what a
// porthole does to a packet is what Judge says of it (TestPortholesDoAsJudged).
package egress
