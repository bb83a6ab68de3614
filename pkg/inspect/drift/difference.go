package drift

import (
	"cmp"
	"slices"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Place is where a difference was found.
type Place string

// The places that a check looks at.
const (
	PlaceAPI        Place = "api"
	PlaceNorthbound Place = "northbound"
	PlaceSouthbound Place = "southbound"
	PlaceNode       Place = "node"
)

// Kind says in which way something differs.
type Kind string

// The kinds of differences.
const (
	// RowMissing: an object wants a row that is not there.
	RowMissing Kind = "row-missing"
	// RowSurplus: a row has our mark and no object wants it.
	RowSurplus Kind = "row-surplus"
	// ColumnDiffers: a row is there, and a column of it holds something else.
	ColumnDiffers Kind = "column-differs"
	// ElementMissing: two rows are there, and the one does not refer to the other.
	ElementMissing Kind = "element-missing"
	// ElementSurplus: a row of ours is referred to by a row that it does not belong to.
	ElementSurplus Kind = "element-surplus"
	// PodPending: a pod that may have a port has no address written on it.
	PodPending Kind = "pod-pending"
	// AnnotationDiffers: what is written on a pod is not what follows from its Network.
	AnnotationDiffers Kind = "annotation-differs"
	// StatusBehind: a Network's status is about an earlier generation of it.
	StatusBehind Kind = "status-behind"
	// StatusDiffers: a Network's status does not say what is so.
	StatusDiffers Kind = "status-differs"
	// FinalizerMissing: nothing would hold a Network back until its pods have gone.
	FinalizerMissing Kind = "finalizer-missing"
	// FinalizerLeft: a Network was deleted, nothing needs it, and it is still held back.
	FinalizerLeft Kind = "finalizer-left"
	// NotBound: a pod's port is not up on the pod's node.
	NotBound Kind = "not-bound"
	// InterfaceMissing: a pod of the node has no interface in its Open vSwitch.
	InterfaceMissing = Kind(api.NodeInterfaceMissing)
	// InterfaceSurplus: an interface of ours belongs to no pod of the node.
	InterfaceSurplus = Kind(api.NodeInterfaceSurplus)
	// InterfaceDiffers: an interface is there, and not as it should be.
	InterfaceDiffers = Kind(api.NodeInterfaceDiffers)
	// ObjectMissing, ObjectSurplus and ObjectDiffers are what an agent finds on its node beside interfaces: links, addresses,
	// routes, rules, sets, settings.
	ObjectMissing = Kind(api.NodeObjectMissing)
	ObjectSurplus = Kind(api.NodeObjectSurplus)
	ObjectDiffers = Kind(api.NodeObjectDiffers)
)

// Difference is one thing that is not as the cluster's objects ask for. Two that are equal are the same.
type Difference struct {
	// Owner is the object on whose account it is, as the databases name it: Network/red, Pod/red/web-0.
	Owner nb.Owner `json:"owner"`
	// Place is where it was found, and Kind in which way something differs.
	Place Place `json:"place"`
	// Node is the one on which its agent found it.
	Node string `json:"node,omitempty"`
	Kind Kind   `json:"kind"`
	// Object is what differs: a row as TABLE NAME, an annotation, a field of a status, an interface.
	Object string `json:"object"`
	// Column of the row; empty when it is about the object as a whole.
	Column string `json:"column,omitempty"`
	// Want is what should be there and Have what is; - stands for nothing.
	Want string `json:"want,omitempty"`
	Have string `json:"have,omitempty"`
}

// Compare orders differences along the way of a pod, then by node, owner and object.
func Compare(a, b Difference) int {
	return cmp.Or(
		cmp.Compare(a.Place.rank(), b.Place.rank()),
		cmp.Compare(a.Node, b.Node),
		cmp.Compare(a.Owner.String(), b.Owner.String()),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Object, b.Object),
		cmp.Compare(a.Column, b.Column),
		cmp.Compare(a.Want, b.Want),
		cmp.Compare(a.Have, b.Have),
	)
}

// rank orders places along the way of a pod: what is wrong earlier explains what is wrong later.
func (p Place) rank() int {
	return slices.Index([]Place{PlaceAPI, PlaceNorthbound, PlaceSouthbound, PlaceNode}, p)
}
