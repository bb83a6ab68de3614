package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeCheck says whether what is on a node is what its agent wants there: ports on OVN's bridge, portholes, and the node's own
// side. Its name is the node's. To get one is to have the agent look; to update one, with spec.repair, is to have it put right
// what differs.
type NodeCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              NodeCheckSpec   `json:"spec,omitzero"`
	Status            NodeCheckStatus `json:"status"`
}

// NodeCheckSpec says what an update is for.
type NodeCheckSpec struct {
	Repair bool `json:"repair,omitempty"`
}

// NodeCheckStatus is what the node's agent found.
type NodeCheckStatus struct {
	// Silent is why the agent has not answered; then there is nothing else.
	Silent string `json:"silent,omitempty"`
	// Interfaces of pods and Portholes are how many were looked at.
	Interfaces int `json:"interfaces"`
	Portholes  int `json:"portholes"`
	// Differences are bounded; More is how many there are beside.
	Differences []NodeDifference `json:"differences,omitempty"`
	More        int              `json:"more,omitempty"`
	// Repaired are those that a repair found and that are gone; Problem is what it could not do.
	Repaired []NodeDifference `json:"repaired,omitempty"`
	Problem  string           `json:"problem,omitempty"`
}

// NodeDifference is one thing on a node that is not as the node's agent wants it.
type NodeDifference struct {
	// Owner is the object on whose account it is, as OVN's databases name it: Pod/red/web-0, Network/red, Node/n1.
	Owner string `json:"owner"`
	// Kind is in which way it differs: interface- or object-missing, -surplus or -differs. Object is what differs.
	Kind   string `json:"kind"`
	Object string `json:"object"`
	// Want is what should be there and Have what is; empty stands for nothing.
	Want string `json:"want,omitempty"`
	Have string `json:"have,omitempty"`
}

// NodeCheckList is that of all nodes.
type NodeCheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeCheck `json:"items"`
}
