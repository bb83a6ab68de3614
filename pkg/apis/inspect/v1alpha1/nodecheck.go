package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeCheck says whether what is on a node is what its agent wants there: ports on OVN's bridge, portholes, and the node's own
// side. Its name is the node's. A get has the agent look. An update with spec.repair has the agent repair the differences.
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
	// Differences are at most MaxNodeDifferences; More is how many there are beside.
	Differences []NodeDifference `json:"differences,omitempty"`
	More        int              `json:"more,omitempty"`
	// Repaired are those that a repair found and that are gone; Problem is what it could not do.
	Repaired []NodeDifference `json:"repaired,omitempty"`
	Problem  string           `json:"problem,omitempty"`
}

// MaxNodeDifferences is how many differences of a node are told, and how many that were repaired.
const MaxNodeDifferences = 100

// NodeDifferenceKind says in which way something on a node differs.
type NodeDifferenceKind string

// The kinds of what differs on a node.
const (
	// NodeInterfaceMissing: a pod's link, or a porthole, has no port on the bridge.
	NodeInterfaceMissing NodeDifferenceKind = "interface-missing"
	// NodeInterfaceSurplus: a port of ours belongs to nothing that is there.
	NodeInterfaceSurplus NodeDifferenceKind = "interface-surplus"
	// NodeInterfaceDiffers: a port is there, and says something else.
	NodeInterfaceDiffers NodeDifferenceKind = "interface-differs"
	// NodeObjectMissing, NodeObjectSurplus and NodeObjectDiffers are of all else: links, addresses, routes, rules, sets, settings.
	NodeObjectMissing NodeDifferenceKind = "object-missing"
	NodeObjectSurplus NodeDifferenceKind = "object-surplus"
	NodeObjectDiffers NodeDifferenceKind = "object-differs"
)

// NodeDifference is one thing on a node that is not as the node's agent wants it. Two that are equal are the same.
type NodeDifference struct {
	// Owner is the object on whose account it is, as OVN's databases name it: Pod/red/web-0, Network/red, Node/n1.
	Owner string `json:"owner"`
	// Kind is in which way it differs, Object what differs.
	Kind   NodeDifferenceKind `json:"kind"`
	Object string             `json:"object"`
	// Want is what should be there and Have what is; empty stands for nothing.
	Want string `json:"want,omitempty"`
	Have string `json:"have,omitempty"`
}

// Compare orders differences by their owners.
func (d NodeDifference) Compare(to NodeDifference) int {
	return cmp.Or(cmp.Compare(d.Owner, to.Owner), cmp.Compare(d.Kind, to.Kind), cmp.Compare(d.Object, to.Object), cmp.Compare(d.Want, to.Want),
		cmp.Compare(d.Have, to.Have))
}

// NodeCheckList is that of all nodes.
type NodeCheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeCheck `json:"items"`
}
