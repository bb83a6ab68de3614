// Package v1alpha1 has the objects of the API group inspect.atoll.dev: what a running cluster is, as atoll-controller sees it. They are made when
// somebody asks, are kept nowhere, and cannot be written; an Explanation and a PolicyTrial are created to ask, and have the answer.
//
// +kubebuilder:skip
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupName is the API group, Version its version.
const (
	// GroupName is the API group.
	GroupName = "inspect.atoll.dev"
	// Version is the version of the objects here.
	Version = "v1alpha1"
)

// The resources.
const (
	// ResourceClusters has one object, ClusterName.
	ResourceClusters = "clusters"
	// ResourceNetworks has one object for each Network.
	ResourceNetworks = "networks"
	// ResourceIPAMs has one object for each Network, and ClusterPools.
	ResourceIPAMs = "ipams"
	// ResourceIPAMChecks has one object for each Network, and ClusterPools.
	ResourceIPAMChecks = "ipamchecks"
	// ResourceTopologies has one object for each Network.
	ResourceTopologies = "topologies"
	// ResourcePods has one object for each pod that is in a Network, or asks to be.
	ResourcePods = "pods"
	// ResourceExplanations are created, and answered at once.
	ResourceExplanations = "explanations"
	// ResourcePolicyTrials are created, and answered at once.
	ResourcePolicyTrials = "policytrials"
	// SubresourceRaw of explanations is the right to be shown the rows underneath.
	SubresourceRaw = "raw"
	// SubresourcePing of pods has packets sent from a pod.
	SubresourcePing = "ping"
	// SubresourceCapture of pods tells of a pod's packets.
	SubresourceCapture = "capture"
	// ResourceDatabases are OVN's central ones. They cannot be got, only connected to.
	ResourceDatabases = "databases"
	// SubresourceProxy of databases is a connection, by an upgrade to websocket: the verb get reads, and update writes, too.
	SubresourceProxy = "proxy"
)

// The databases.
const (
	// DatabaseNorthbound says what is wanted.
	DatabaseNorthbound = "northbound"
	// DatabaseSouthbound says what is done on nodes.
	DatabaseSouthbound = "southbound"
)

// How a connection to a database is asked for.
const (
	// ProxyWrite is the parameter of a request for one that writes; it is "true" then.
	ProxyWrite = "write"
	// ProxyProtocol is the subprotocol of websocket: JSON-RPC as of RFC 7047, in binary messages whose bounds mean nothing.
	ProxyProtocol = "v1alpha1.ovsdb.inspect.atoll.dev"
)

// NetworkResources are those whose objects are about a Network and have its name: who may get one of them for it, may get all.
func NetworkResources() []string {
	return []string{ResourceNetworks, ResourceIPAMs, ResourceIPAMChecks, ResourceTopologies}
}

// ClusterName is the name of the one Cluster.
const ClusterName = "cluster"

// GroupVersion is that of every object in this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: Version}
}
