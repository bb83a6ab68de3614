// Package inspectapi serves the API group inspect.atoll.dev to the API server, which hands on to it what its users ask (an aggregated API).
//
//	kube-apiserver --client certificate, X-Remote-User--> authenticator --> authorizer --SubjectAccessReview--> handler --> inspect.Inquirer
//
// What must stay true: nothing is written, an Explanation that is posted not either; nobody is believed who he is but by the API server's word (its request header certificate, or its
// review of a token); nothing is looked up before Kubernetes' RBAC has allowed it, so that who may not see something does not learn whether
// it is there.
package inspectapi
