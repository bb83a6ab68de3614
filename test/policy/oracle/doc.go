// Package oracle says whether network policy lets a packet through, and which rule decided.
//
// In: a Cluster (namespaces, pods and their places, nodes, policies, as Kubernetes' own objects) and a Packet. Out: a
// Verdict. It is written from the text of the API alone: NetworkPolicy of networking.k8s.io/v1, and ClusterNetworkPolicy
// of policy.networking.k8s.io/v1alpha2, plus what Networks add: a policy touches only pods of the Network of
// the pod that it selects, and sees these and pods of Networks that are compatible with it, or it with them.
//
// What must stay true: nothing of the product is imported, so that a mistake in the product cannot be repeated here; no
// index and no cache, so that each rule can be read beside the sentence of the API that it comes from. It is slow, and
// may be.
//
// The objects are those that an API server admits. Where it could admit what cannot be understood, a rule that allows
// matches nothing, and one that does not matches everything.
package oracle
