package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Network tells of a Network. Its name is the Network's.
type Network struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            NetworkStatus `json:"status"`
}

// NetworkList is a list of Networks. They are as in a list: without Detail.
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Network `json:"items"`
}

// NetworkStatus is what was found.
type NetworkStatus struct {
	// Type is flat or vpc.
	Type string `json:"type"`
	// Tenant is whose it is; empty: the cluster's.
	Tenant string `json:"tenant,omitempty"`
	// Phase and Reason are those of the Network's status, and Message what its condition says when it is not Ready.
	Phase   string `json:"phase,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Pods are those that hold an address of it.
	Pods int64 `json:"pods"`
	// Ranges are those of its subnets, ServiceRanges those of its Services.
	Ranges        []Range `json:"ranges"`
	ServiceRanges []Range `json:"serviceRanges,omitempty"`
	// Isolation is hard or soft; empty when it is not known.
	Isolation string `json:"isolation,omitempty"`
	// Peers are the Networks whose pods reach its pods, or are reached by them, or are to be.
	Peers []Peer `json:"peers,omitempty"`
	// Detail is what only the answer about one Network has.
	Detail *NetworkDetail `json:"detail,omitempty"`
}

// Range is a range of addresses.
type Range struct {
	// Subnet is its subnet's name; empty for a range of Services.
	Subnet  string `json:"subnet,omitempty"`
	CIDR    string `json:"cidr"`
	Gateway string `json:"gateway,omitempty"`
	// Used and Free count its addresses; Free is at most 2^53-1.
	Used int64 `json:"used"`
	Free int64 `json:"free"`
}

// Peer is another Network.
type Peer struct {
	Network string `json:"network"`
	// Direction is Serves or Uses, Mode ByFace or Routed, State Active, Waiting or Refused.
	Direction string `json:"direction"`
	Mode      string `json:"mode"`
	State     string `json:"state"`
	// Message says why, when it is not Active.
	Message string `json:"message,omitempty"`
}

// NetworkDetail is more of a Network.
type NetworkDetail struct {
	// Namespaces are those whose pods join it unless they choose another.
	Namespaces []string `json:"namespaces,omitempty"`
	// Nodes are those that have pods of it.
	Nodes []NodePods `json:"nodes,omitempty"`
	// Services are those of its namespaces, with the addresses that its pods dial.
	Services []Addressed `json:"services,omitempty"`
	// Gateways are those of its namespaces, as NAMESPACE/NAME.
	Gateways []string `json:"gateways,omitempty"`
	// Policies select pods of it, as KIND/NAMESPACE/NAME.
	Policies []string `json:"policies,omitempty"`
	// Rows are its router and switches in the northbound database.
	Rows []Row `json:"rows,omitempty"`
	// Problem says why Rows are not known.
	Problem string `json:"problem,omitempty"`
}

// NodePods is how many pods a node has.
type NodePods struct {
	Node string `json:"node"`
	Pods int    `json:"pods"`
}

// Addressed is an object with addresses.
type Addressed struct {
	// Name is NAMESPACE/NAME.
	Name      string   `json:"name"`
	Addresses []string `json:"addresses,omitempty"`
}

// Row is a row of a database.
type Row struct {
	Table string `json:"table"`
	Name  string `json:"name"`
	// There: the database has it.
	There bool `json:"there"`
	// Ports are how many it has.
	Ports int `json:"ports,omitempty"`
}
