// Package v1alpha1 has the objects of the API group inspect.atoll.dev: what a running cluster is, as atoll-inspect sees it. They
// are made when somebody asks, are kept nowhere, and cannot be written; an Explanation and a PolicyTrial are created to ask, and
// have the answer.
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
	// ResourceFlows are what is kept of who talks to whom: one object for each Network, which is a stream of FlowLines. The right to
	// list or watch them is the right to ask, and that to get one by its Network's name is the right to be told.
	ResourceFlows = "flows"
	// ResourcePodFlows are the same of a namespace's pods: a stream of FlowLines.
	ResourcePodFlows = "podflows"
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
	// ResourceNodeChecks has one object for each node: what is on it otherwise than it should be. To update one has that repaired.
	ResourceNodeChecks = "nodechecks"
	// ResourceDatabases are OVN's central ones. They cannot be got, only connected to.
	ResourceDatabases = "databases"
	// ResourceNodes are those of the cluster. They cannot be got, only connected to.
	ResourceNodes = "nodes"
	// SubresourceProxy of databases and nodes is a connection, by an upgrade to websocket: the verb get reads, and update writes, too.
	SubresourceProxy = "proxy"
)

// The databases.
const (
	// DatabaseNorthbound says what is wanted.
	DatabaseNorthbound = "northbound"
	// DatabaseSouthbound says what is done on nodes.
	DatabaseSouthbound = "southbound"
)

// How a connection to a database or to a node is asked for.
const (
	// ProxyWrite is the parameter of a request for one that writes; it is "true" then.
	ProxyWrite = "write"
	// ProxyProtocol is the subprotocol of websocket: JSON-RPC as of RFC 7047, in binary messages whose bounds mean nothing.
	ProxyProtocol = "v1alpha1.ovsdb.inspect.atoll.dev"
	// NodeSocket is the parameter of a request for a connection to a node that names one of its sockets, and NodeBridge the one that
	// names the bridge of NodeOpenFlow.
	NodeSocket = "socket"
	NodeBridge = "bridge"
	// NodeProtocol is the subprotocol of websocket to a node: the bytes of the socket, in binary messages whose bounds mean nothing.
	NodeProtocol = "v1alpha1.socket.inspect.atoll.dev"
)

// The sockets of a node, beside those of its daemons ovs-vswitchd, ovsdb-server and ovn-controller, which have their names.
const (
	// NodeDatabase is that of its Open vSwitch's database.
	NodeDatabase = "database"
	// NodeOpenFlow is that of one of its bridges.
	NodeOpenFlow = "openflow"
)

// The parameters of a question about flows.
const (
	// FlowSince is the age of the oldest that is wanted, as 10m.
	FlowSince = "since"
	// FlowUntil is the age of the newest that is wanted, where that is not now.
	FlowUntil = "until"
	// FlowNetwork and FlowNamespace have others left out, and FlowPod flows that neither begin nor end at a pod, NAMESPACE/NAME.
	FlowNetwork   = "network"
	FlowNamespace = "namespace"
	FlowPodName   = "pod"
	// FlowDrops is "true" where only those are wanted that did not pass.
	FlowDrops = "drops"
	// FlowFollow is "true" where what comes is told, too, until who asks has enough. It is the API's watch, which no API server
	// bounds in time.
	FlowFollow = "watch"
	// FlowAgain, of who follows, is how far back they hear again what was told to those who followed then, as 10s: at most 30s. It
	// is for who goes on after FlowLine.Renew.
	FlowAgain = "again"
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
