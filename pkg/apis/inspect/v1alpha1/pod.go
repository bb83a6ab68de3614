package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Pod tells of a pod's network. Name and namespace are the pod's.
type Pod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            PodStatus `json:"status"`
}

// PodList is a list of Pods. They are as in a list: without Layers, Policies and Services.
type PodList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Pod `json:"items"`
}

// PodStatus is what was found.
type PodStatus struct {
	// Network is the one that it is in, or asks for.
	Network string `json:"network,omitempty"`
	Subnet  string `json:"subnet,omitempty"`
	// Addresses are its own, Faces those by which Kubernetes knows it; in a flat Network it has none.
	Addresses []string `json:"addresses,omitempty"`
	Faces     []string `json:"faces,omitempty"`
	MAC       string   `json:"mac,omitempty"`
	Node      string   `json:"node,omitempty"`
	// Verdict is how it is, in a sentence: the first layer where something is missing, and why.
	Verdict string `json:"verdict,omitempty"`
	// Layers are what a pod's network is made of, in the order in which they come to be.
	Layers []Layer `json:"layers,omitempty"`
	// Policies select it, as KIND/NAMESPACE/NAME. Services have it as an endpoint, as NAMESPACE/NAME.
	Policies []string `json:"policies,omitempty"`
	Services []string `json:"services,omitempty"`
}

// LayerState says whether what a layer has to have is there.
type LayerState string

// The states of a layer.
const (
	// LayerOK: it is there.
	LayerOK LayerState = "ok"
	// LayerMissing: it is not.
	LayerMissing LayerState = "missing"
	// LayerUnknown: nobody could tell.
	LayerUnknown LayerState = "unknown"
	// LayerNone: there is nothing to be there.
	LayerNone LayerState = "none"
)

// Layer is one of the things that a pod's network is made of.
type Layer struct {
	Name  string     `json:"name"`
	State LayerState `json:"state"`
	// What is there; of what is missing, or not known, why, and Next what to do.
	What string `json:"what"`
	Next string `json:"next,omitempty"`
}
