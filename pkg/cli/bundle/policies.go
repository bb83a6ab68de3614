package bundle

// policyKinds are those of policies.
func policyKinds() []kind {
	return []kind{
		of("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicies").inNamespaces(), of("policy.networking.k8s.io",
			"v1alpha2", "clusternetworkpolicies", "ClusterNetworkPolicies"),
	}
}
