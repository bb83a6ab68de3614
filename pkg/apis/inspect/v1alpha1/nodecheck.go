package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/model"
)

// NodeCheck says whether what is on a node is what its agent wants there: ports on OVN's bridge, portholes, and the node's own side. Its name is the node's. To get one is
// to have the agent look; to update one, with spec.repair, is to have it put right what differs.
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
	Silent          string `json:"silent,omitempty"`
	model.NodeCheck `json:",inline"`
}

// NodeCheckList is that of all nodes.
type NodeCheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeCheck `json:"items"`
}
