package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeReport is what the agent of a node reports of it: its addresses, also those that its Node does not list, so that
// the agents of all nodes keep Networks' pods away from them.
//
// It has the node's name, and goes with the Node. The node's agent keeps it; nobody else needs to write one. Others
// believe it only as far as it closes something: each address is one more that pods do not reach without direct
// access.
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
	// The addresses of the node's interfaces, of both IP families, at most 256: all except link-local ones, and those
	// that Atoll or kube-proxy gave it. They are infrastructure to all Networks.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.all(a, isIP(a))",message="addresses are plain IP addresses"
	Addresses []string `json:"addresses,omitempty"`
	// The addresses where it takes tunnels from other nodes (ovn-encap-ip). No pod reaches them, whatever access its
	// Network has.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.all(a, isIP(a))",message="tunnels' addresses are plain IP addresses"
	Tunnels []string `json:"tunnels,omitempty"`
	// The addresses of the cluster's DNS that its agent uses, from the AtollConfig. None: pods of Networks have no
	// names on this node.
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
