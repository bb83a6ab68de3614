package model

import "cmp"

// NodeKind says in which way something on a node differs.
type NodeKind string

// The kinds of what differs on a node.
const (
	// InterfaceMissing: a pod's link, or a porthole, has no port on the bridge.
	InterfaceMissing NodeKind = "interface-missing"
	// InterfaceSurplus: a port of ours belongs to nothing that is there.
	InterfaceSurplus NodeKind = "interface-surplus"
	// InterfaceDiffers: a port is there, and says something else.
	InterfaceDiffers NodeKind = "interface-differs"
	// ObjectMissing, ObjectSurplus and ObjectDiffers are of all else: links, addresses, routes, rules, sets, settings.
	ObjectMissing NodeKind = "object-missing"
	ObjectSurplus NodeKind = "object-surplus"
	ObjectDiffers NodeKind = "object-differs"
)

// NodeDifference is one thing on a node that is not as the node's agent wants it. Two that are equal are the same.
type NodeDifference struct {
	// Owner is the object on whose account it is, as OVN's databases name it: Pod/red/web-0, Network/red, Node/n1.
	Owner string `json:"owner"`
	// Kind is in which way it differs, Object what differs.
	Kind   NodeKind `json:"kind"`
	Object string   `json:"object"`
	// Want is what should be there and Have what is; empty stands for nothing.
	Want string `json:"want,omitempty"`
	Have string `json:"have,omitempty"`
}

// Compare orders differences by their owners.
func (d NodeDifference) Compare(to NodeDifference) int {
	return cmp.Or(cmp.Compare(d.Owner, to.Owner), cmp.Compare(d.Kind, to.Kind), cmp.Compare(d.Object, to.Object), cmp.Compare(d.Want, to.Want),
		cmp.Compare(d.Have, to.Have))
}

// MaxNodeDifferences is how many differences of a node are told, and how many that were repaired.
const MaxNodeDifferences = 100

// NodeCheck is what an agent finds when it looks at its node.
type NodeCheck struct {
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
