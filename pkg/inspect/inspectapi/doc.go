// Package inspectapi serves the API group inspect.atoll.dev as an aggregated API: the API server forwards its users' requests to it.
//
//	kube-apiserver --client certificate, X-Remote-User--> authenticator --> authorizer --SubjectAccessReview--> handler --> Reads, Answers
//
// Some answers only nodes have: Agents, FlowAgents and CheckAgents ask the agents there. Users are connected to OVN's databases and
// to sockets of nodes as streams of bytes. A gate judges what they may do there.
//
// What must stay true: nothing is stored, not even a posted Explanation. A write needs a right of its own: to write to a database or
// to a node, or to repair a node. Only the API server says who the user is, by its request header certificate or by its review of a
// token. Nothing is looked up before Kubernetes' RBAC allows it, so that a user who may not see an object does not learn whether it
// exists.
package inspectapi
