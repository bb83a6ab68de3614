package model

import "net/netip"

// LabelService on the EndpointSlice of a Mirror names its Service. The label by which Kubernetes knows a Service's
// slices is not there: nothing but Atoll reads mirrors.
const LabelService = Group + "/service"

// AnnotationFaces on the EndpointSlice of a Mirror is a JSON object from pods' own addresses to their faces. The DNS of Networks that
// reach the Mirror's tells of these. The admission policies in dist/ let nobody but the controller write it.
const AnnotationFaces = Group + "/faces"

// Mirror is part of a Service's endpoints in one Network, with the pods' own addresses. It is written as an
// EndpointSlice beside the one that Kubernetes made, which has the faces.
type Mirror struct {
	// Network is where the addresses are.
	Network string
	// Source is the slice that it mirrors, and SourceUID its UID: the mirror goes with it.
	Source    SliceKey
	SourceUID string
	// Service is the name of the Service, in the namespace of the slice.
	Service string
	Ports   []SlicePort
	// Endpoints have their own addresses, all of one IP family. There is at least one.
	Endpoints []Endpoint
	// Faces are what pods of other Networks reach endpoints by, by their own addresses; nil where nobody does.
	Faces map[netip.Addr]netip.Addr
}
