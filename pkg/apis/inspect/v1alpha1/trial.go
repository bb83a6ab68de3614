package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PolicyTrial asks what would change if policies were others (spec), and has the answer (status). It is created and kept nowhere,
// as an Explanation is, and the policies are not applied. Who may create NetworkPolicies in a namespace may try them there.
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
	// Since has flows judged, too, that were seen in that time.
	Since *metav1.Duration `json:"since,omitempty"`
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
	// Flows are what of the flows that were seen would change; nil where that was not asked for.
	Flows *TrialFlows `json:"flows,omitempty"`
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

// TrialFlows are flows that were seen and would be decided otherwise.
type TrialFlows struct {
	// Since is the age of the oldest that was looked at.
	Since metav1.Duration `json:"since"`
	// Problem is why flows are not known; empty where they are.
	Problem string `json:"problem,omitempty"`
	// Seen is how many were looked at, and Status how whole that is. Stopped and Allowed are how many of them would be stopped and
	// newly let through, each once: between two ends on a port.
	Seen    int        `json:"seen"`
	Status  FlowStatus `json:"status"`
	Stopped int        `json:"stopped"`
	Allowed int        `json:"allowed"`
	// Changes are these, those with the most connections first, and at most 500.
	Changes []TrialFlow `json:"changes,omitempty"`
	// Unjudged is of how many of Seen it is not known: a pod of theirs has gone, or is somebody else's.
	Unjudged int `json:"unjudged,omitempty"`
	// Unsampled is how many pods that the policies select had no policy yet in a direction: nothing is seen at those.
	Unsampled int `json:"unsampled,omitempty"`
}

// TrialFlow is a flow about which it would be decided otherwise.
type TrialFlow struct {
	Flow   Flow         `json:"flow"`
	Before TrialVerdict `json:"before"`
	After  TrialVerdict `json:"after"`
}
