// Package inspectapi serves the API group inspect.atoll.dev to the API server, which hands on to it what its users ask (an aggregated API).
//
//	kube-apiserver --client certificate, X-Remote-User--> authenticator --> authorizer --SubjectAccessReview--> handler --> Reads, Answers
//
// Some answers only nodes have: Agents, FlowAgents and CheckAgents ask theirs. Users are connected to OVN's databases and to
// sockets of nodes as bytes, and what they may do there a gate judges.
//
// What must stay true: nothing is kept, an Explanation that is posted not either, and nothing is written but by who has a right
// of its own for it: to write a database or a node, or to have a node repaired. Nobody is believed who he is but by the API
// server's word (its request header certificate, or its review of a token). Nothing is looked up before Kubernetes' RBAC has
// allowed it, so that who may not see something does not learn whether it is there.
package inspectapi
