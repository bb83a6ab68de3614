package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeReport is what the agent of a node says of it: its addresses, those too that its Node does not list, so that the agents of all
// nodes keep Networks' pods from them.
//
// It has the node's name and belongs to the Node, with which it goes. The node's own agent makes it and keeps it up to date; nobody else
// needs to write one. What it says is believed as far as it takes something away: each address is one more that pods do not
// reach without direct access.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=nodereports,singular=nodereport,shortName=nr
// +kubebuilder:printcolumn:name="Addresses",type=string,JSONPath=`.status.addresses`,description="All addresses of the node"
// +kubebuilder:printcolumn:name="Tunnels",type=string,JSONPath=`.status.tunnels`,description="Those of its tunnels"
// +kubebuilder:printcolumn:name="DNS",type=string,JSONPath=`.status.clusterDNS`,description="Where pods of the node are told to ask for names"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,description="The agent's version"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the agent found.
	//
	// +optional
	Status NodeReportStatus `json:"status,omitempty"`
}

// NodeReportList is a list of NodeReports.
//
// +kubebuilder:object:root=true
type NodeReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeReport `json:"items"`
}

// NodeReportStatus is what the agent of a node found there.
type NodeReportStatus struct {
	// The addresses of the node's interfaces, of both IP families: all but link-local ones, and those that Atoll or kube-proxy
	// gave it. Single addresses, never ranges.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.all(a, isIP(a))",message="addresses are plain IP addresses"
	Addresses []string `json:"addresses,omitempty"`
	// The addresses at which it takes tunnels from other nodes (ovn-encap-ip). No pod reaches them, whatever access it has.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.all(a, isIP(a))",message="tunnels' addresses are plain IP addresses"
	Tunnels []string `json:"tunnels,omitempty"`
	// The cluster's DNS addresses, as the agent has them of the AtollConfig. None: Networks have no names on this node.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=45
	ClusterDNS []string `json:"clusterDNS,omitempty"`
	// The version of the agent.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
}
