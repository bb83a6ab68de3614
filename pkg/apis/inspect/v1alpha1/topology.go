package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Topology tells what a Network is made of, and which others it is compatible with. Its name is the Network's.
type Topology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            TopologyStatus `json:"status"`
}

// TopologyList is a list of Topologies.
type TopologyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Topology `json:"items"`
}

// TopologyStatus is what was found.
type TopologyStatus struct {
	// Type is flat or vpc.
	Type string `json:"type"`
	// Tenant is whose it is; empty: the cluster's.
	Tenant string `json:"tenant,omitempty"`
	Phase  string `json:"phase,omitempty"`
	// Router is the one that its subnets hang on: of a flat Network the default one's.
	Router  string           `json:"router"`
	Subnets []TopologySubnet `json:"subnets"`
	// ServiceCIDRs are the ranges of its Services.
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
	// Gateways are those of its namespaces.
	Gateways []Addressed `json:"gateways,omitempty"`
	// Offers are to whom it offers its pods, whether or not they use that.
	Offers []TopologyOffer `json:"offers,omitempty"`
	// Peers are the Networks whose pods reach its pods, or are reached by them, or are to be.
	Peers []Peer `json:"peers,omitempty"`
	// Pods are those that hold an address of it, Nodes where they are.
	Pods  int64      `json:"pods"`
	Nodes []NodePods `json:"nodes,omitempty"`
}

// TopologySubnet is a subnet that is served.
type TopologySubnet struct {
	Name string `json:"name"`
	// Switch is the logical switch in the northbound database.
	Switch string `json:"switch"`
	// CIDRs and Gateways are one of each IP family.
	CIDRs    []string `json:"cidrs"`
	Gateways []string `json:"gateways,omitempty"`
	// Pods are those that hold an address of it, Nodes where they are.
	Pods  int64      `json:"pods"`
	Nodes []NodePods `json:"nodes,omitempty"`
}

// TopologyOffer says to whom a Network offers its pods: to one Network, to those of a tenant, or to all.
type TopologyOffer struct {
	Network string `json:"network,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	All     bool   `json:"all,omitempty"`
	// Mode is ByFace or Routed.
	Mode string `json:"mode"`
}
