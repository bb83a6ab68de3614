package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Explanation asks for the whole way between two ends (spec), and has the answer (status). It is created and kept nowhere, as a review of access is. In a
// namespace it may be created by who may ask about that namespace's pods, and outside of any by who may ask about everybody's.
type Explanation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ExplanationSpec   `json:"spec"`
	Status            ExplanationStatus `json:"status"`
}

// ExplanationSpec is the question, as `atoll explain` takes it.
type ExplanationSpec struct {
	// From and To are the ends: NAMESPACE/POD, svc/NAMESPACE/NAME, node/NAME, an address, a DNS name, outside.
	From string `json:"from"`
	To   string `json:"to"`
	// Network says whose an address among them is.
	Network string `json:"network,omitempty"`
	// Protocol is tcp, udp, sctp or icmp; Port is the one that is dialled, 0 for icmp.
	Protocol string `json:"protocol"`
	Port     uint16 `json:"port,omitempty"`
	// Raw asks for the rows underneath, too. It needs the right to create explanations/raw.
	Raw bool `json:"raw,omitempty"`
}

// ExplanationStatus is the answer.
type ExplanationStatus struct {
	// Reached: the packet gets there, on every way that it may take. Verdict says it in a sentence: what stops it, and what to do.
	Reached bool   `json:"reached"`
	Verdict string `json:"verdict"`
	// Ways: one for each address that is dialled, and each endpoint that it may lead to.
	Ways []ExplanationWay `json:"ways"`
	// Sources says what was read, and what is not told to who asks.
	Sources string `json:"sources,omitempty"`
	// Drift are differences between OVN's rows and what the cluster's objects ask for.
	Drift []ExplanationDrift `json:"drift,omitempty"`
	// Raw are the rows underneath, each as text.
	Raw []string `json:"raw,omitempty"`
}

// ExplanationWay is one way that the packet may take.
type ExplanationWay struct {
	// Dialled is the address, and the port if there is one, that the sender dials; To is whom it comes to; SeenAs the address that the other end sees.
	Dialled string `json:"dialled,omitempty"`
	To      string `json:"to,omitempty"`
	SeenAs  string `json:"seenAs,omitempty"`
	Reached bool   `json:"reached"`
	// There are the steps of the packet in their order, Back those of the answer.
	There []ExplanationStep `json:"there"`
	Back  []ExplanationStep `json:"back,omitempty"`
}

// ExplanationStep is one step of a way.
type ExplanationStep struct {
	// Layer is the part of the system that it is in, Node and Network where.
	Layer   string `json:"layer"`
	Node    string `json:"node,omitempty"`
	Network string `json:"network,omitempty"`
	// OK: it goes on, or has arrived.
	OK bool `json:"ok"`
	// What happens, in words; where it is stopped, Next is what to do.
	What string `json:"what"`
	Next string `json:"next,omitempty"`
}

// ExplanationDrift is one difference: of Owner's Object in its Column.
type ExplanationDrift struct {
	// Owner is the object on whose account it is, Kind in which way Object differs, and in which Column.
	Owner  string `json:"owner"`
	Kind   string `json:"kind"`
	Object string `json:"object"`
	Column string `json:"column,omitempty"`
	Want   string `json:"want,omitempty"`
	Have   string `json:"have,omitempty"`
}
