package model

// LabelService on the EndpointSlice of a Mirror names its Service. The label by which Kubernetes knows a Service's
// slices is not there: nothing but Atoll reads mirrors.
const LabelService = Group + "/service"

// Mirror is part of a Service's endpoints in one Network, with the pods' own addresses. It is written as an
// EndpointSlice beside the one that Kubernetes made, which has the faces.
type Mirror struct {
	// Network is where the addresses are.
	Network string
	// Of is the slice that it mirrors, and OfUID its UID: the mirror goes with it.
	Of    SliceKey
	OfUID string
	// Service is the name of the Service, in the namespace of the slice.
	Service string
	Ports   []SlicePort
	// Endpoints have their own addresses, all of one IP family. There is at least one.
	Endpoints []Endpoint
}
