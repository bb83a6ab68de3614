package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Cluster tells how Atoll is in this cluster.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            ClusterStatus `json:"status"`
}

// ClusterList is a list of Clusters.
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

// ClusterStatus is what was found.
type ClusterStatus struct {
	// Healthy: there is no problem.
	Healthy bool `json:"healthy"`
	// Problems are what is not well, the worst first.
	Problems []Problem `json:"problems"`
	// Source says who answered: the name of a controller; or that none did, and what was asked in its place.
	Source string `json:"source"`
	// Leader is the controller that works; absent when none does, or that is not known.
	Leader *Leader `json:"leader,omitempty"`
	// Components are the Deployments and DaemonSets of Atoll; none where its programs do not run in pods.
	Components []Component `json:"components,omitempty"`
	// Databases are OVN's central ones.
	Databases []Database `json:"databases,omitempty"`
	// Certificates are those of the authorities, and those that the databases' servers show; none where Atoll signs none.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Nodes are all that the cluster has.
	Nodes []Node `json:"nodes"`
	// Behind is what was asked for and is not there yet.
	Behind Behind `json:"behind"`
	// Networks and Pods are how many there are; of pods those that are in a Network, or ask to be.
	Networks int `json:"networks"`
	Pods     int `json:"pods"`
}

// Problem is something that is not well.
type Problem struct {
	// Object is what is concerned, as KIND/NAME.
	Object string `json:"object"`
	// Message is what is wrong, Next what to do.
	Message string `json:"message"`
	Next    string `json:"next,omitempty"`
}

// Leader is the controller that holds the Lease.
type Leader struct {
	Name string `json:"name"`
	// Since is when it began, Renewed when it was last heard of.
	Since   metav1.MicroTime `json:"since"`
	Renewed metav1.MicroTime `json:"renewed"`
}

// Component is a Deployment or a DaemonSet.
type Component struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Image is that of its first container.
	Image string `json:"image,omitempty"`
	// Ready are the pods that are, of those that are Wanted.
	Ready  int32 `json:"ready"`
	Wanted int32 `json:"wanted"`
}

// Certificate is one by which parts of Atoll and OVN know each other.
type Certificate struct {
	// Name is an authority's, as atoll-ca-central, or what a server calls itself, as atoll-ovn-central:NODE.
	Name string `json:"name"`
	// Ends is when it ends: of several of one name, the one that ends first; of an authority, its newest.
	Ends metav1.Time `json:"ends"`
	// Problem says that it should have been replaced; empty when all is well.
	Problem string `json:"problem,omitempty"`
}

// Database is one of OVN's central databases.
type Database struct {
	// Name is OVN_Northbound or OVN_Southbound.
	Name string `json:"name"`
	// Clustered: it is a raft cluster.
	Clustered bool     `json:"clustered"`
	Servers   []Server `json:"servers"`
	// Problem says why nothing of it is known; empty when something is.
	Problem string `json:"problem,omitempty"`
}

// Server is a member of a database.
type Server struct {
	Address string `json:"address"`
	// Leader: it leads its cluster. Connected: it is in contact with a majority. Both are true of a database of one server.
	Leader    bool `json:"leader"`
	Connected bool `json:"connected"`
	// Index is the raft log's entry that it has applied last, Lag how many the foremost has applied beyond.
	Index int64 `json:"index,omitempty"`
	Lag   int64 `json:"lag,omitempty"`
	// Problem says why it did not answer.
	Problem string `json:"problem,omitempty"`
}

// Node is a node, as far as it concerns Atoll.
type Node struct {
	Name string `json:"name"`
	// Ready: Kubernetes says so.
	Ready bool `json:"ready"`
	// Agent is the version of atoll-agent that reports of it; empty when none has.
	Agent string `json:"agent,omitempty"`
	// Chassis: it is registered in the southbound database. Absent when that was not asked.
	Chassis *bool `json:"chassis,omitempty"`
	// Pods are those of Networks.
	Pods int `json:"pods"`
	// Problem is what is not well with it.
	Problem string `json:"problem,omitempty"`
}

// Behind counts what is on its way, or does not come.
type Behind struct {
	// Networks are not Ready.
	Networks int `json:"networks"`
	// Addresses: so many pods have none.
	Addresses int `json:"addresses"`
	// Ports: so many ports of pods are bound by no node. Absent when the southbound database was not asked.
	Ports *int `json:"ports,omitempty"`
}
