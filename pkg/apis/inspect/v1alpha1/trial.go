package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PolicyTrial asks what would change if policies were others (spec), and has the answer (status). It is created and kept nowhere, as an Explanation is,
// and the policies are not applied. Who may create NetworkPolicies in a namespace may try them there.
type PolicyTrial struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PolicyTrialSpec   `json:"spec"`
	Status            PolicyTrialStatus `json:"status"`
}

// PolicyTrialSpec says how policies would be.
type PolicyTrialSpec struct {
	// Policies are NetworkPolicies and ClusterNetworkPolicies, whole, as the API server would keep them.
	Policies []runtime.RawExtension `json:"policies,omitempty"`
	// Delete are those that would be gone: NetworkPolicy/NAMESPACE/NAME, ClusterNetworkPolicy/NAME.
	Delete []string `json:"delete,omitempty"`
}

// PolicyTrialStatus is what would change.
type PolicyTrialStatus struct {
	// Changes: something would. Verdict says it in a sentence.
	Changes bool   `json:"changes"`
	Verdict string `json:"verdict"`
	// Denied and Allowed are how many paths would be. A path is a pair and a protocol.
	Denied  int `json:"denied"`
	Allowed int `json:"allowed"`
	// Paths are what would change, what is alike together.
	Paths []TrialPath `json:"paths"`
	// Problems are what of the policies cannot be understood, and allows nothing.
	Problems []string `json:"problems,omitempty"`
	// Cut says what was not compared; empty when all was.
	Cut string `json:"cut,omitempty"`
	// Sources says what was read, and what is not told to who asks.
	Sources string `json:"sources,omitempty"`
}

// TrialPath is what would change between each of From and each of To.
type TrialPath struct {
	// From are those that begin, To those that are dialled.
	From []TrialEnd `json:"from"`
	To   []TrialEnd `json:"to"`
	// Ports are protocols and ports: "any", "tcp 80,443", "udp but 53". Family is IPv4 or IPv6 where it is one of them alone.
	Ports  string `json:"ports"`
	Family string `json:"family,omitempty"`
	// Face: it is about what is dialled by faces, of two Networks that know each other's own addresses, too.
	Face bool `json:"face,omitempty"`
	// Before and After are how it is, and would be.
	Before TrialVerdict `json:"before"`
	After  TrialVerdict `json:"after"`
}

// TrialVerdict is whether packets pass.
type TrialVerdict struct {
	Allowed bool `json:"allowed"`
	// Deciders are what decides, in words: the end that denies, or all that allows.
	Deciders []string `json:"deciders,omitempty"`
}

// TrialEnd is pods that no policy tells apart, nodes, or addresses.
type TrialEnd struct {
	// Name is the end in words. Kind is pods, nodes, outside, names or api.
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Network is the one that it is in, or is seen from.
	Network string `json:"network,omitempty"`
	// Count is how many pods or nodes it is; Members are their names: at most 100.
	Count   int      `json:"count,omitempty"`
	Members []string `json:"members,omitempty"`
	// CIDR and Except are its addresses outside; Dialled those by which it is known.
	CIDR    string   `json:"cidr,omitempty"`
	Except  []string `json:"except,omitempty"`
	Dialled []string `json:"dialled,omitempty"`
}
