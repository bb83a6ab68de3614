package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Explanation asks for the whole way between two ends (spec), and has the answer (status). It is created and kept nowhere, as a
// review of access is. In a namespace it may be created by who may ask about that namespace's pods, and outside of any by who may
// ask about everybody's.
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
	// Send has a real packet sent from From, which must be a pod, to each address that is dialled, and its way observed on the
	// nodes. It needs the right to create pods/ping of that pod, too.
	Send bool `json:"send,omitempty"`
}

// ExplanationStatus is the answer.
type ExplanationStatus struct {
	// Reached: the packet gets there, on every way that it may take. Verdict says it in a sentence: what stops it, and what to do.
	Reached bool   `json:"reached"`
	Verdict string `json:"verdict"`
	// Ways: one for each address that is dialled, and each endpoint that it may lead to.
	Ways []ExplanationWay `json:"ways"`
	// Changing says why the answer may be another one in a moment: what it rests on has just changed, or is not everywhere yet.
	Changing []string `json:"changing,omitempty"`
	// Sources says what was read, and what is not told to who asks.
	Sources string `json:"sources,omitempty"`
	// Drift are differences between OVN's rows and what the cluster's objects ask for.
	Drift []ExplanationDrift `json:"drift,omitempty"`
	// Raw are the rows underneath, each as text.
	Raw []string `json:"raw,omitempty"`
	// Sent are the packets that were sent, where that was asked for: one to each address that is dialled. Unsent says why there is none.
	Sent   []ExplanationSent `json:"sent,omitempty"`
	Unsent string            `json:"unsent,omitempty"`
}

// The verdicts of what was sent.
const (
	// SentAsExplained and SentDiffers say whether the packet went as the ways say; SentUnknown that it was not seen enough of it.
	SentAsExplained = "as explained"
	SentDiffers     = "differs"
	SentUnknown     = "unknown"
)

// ExplanationSent is what became of a packet that was sent.
type ExplanationSent struct {
	// Dialled is the address, and the port if there is one, that it was sent to.
	Dialled string `json:"dialled"`
	// Verdict is one of those above; What says what was explained, and what was seen.
	Verdict string `json:"verdict"`
	What    string `json:"what"`
	// Answered: the pod got an answer, after Took; else Why says what it got instead.
	Answered bool            `json:"answered"`
	Took     metav1.Duration `json:"took,omitzero"`
	Why      string          `json:"why,omitempty"`
	// There and Back are where the packet and its answer were seen, in the order in which they were.
	There []ExplanationPoint `json:"there"`
	Back  []ExplanationPoint `json:"back,omitempty"`
	// Unobserved are the places where nothing was captured, each with the reason. Hidden says that the caller may not see some places.
	Unobserved []string `json:"unobserved,omitempty"`
	Hidden     bool     `json:"hidden,omitempty"`
}

// ExplanationPoint is where a packet was seen.
type ExplanationPoint struct {
	// Microseconds is when, since the first time that the packet was seen. OwnClock: by the clock of a node that could not be
	// compared with the sender's.
	Microseconds int64  `json:"microseconds"`
	OwnClock     bool   `json:"ownClock,omitempty"`
	Node         string `json:"node"`
	Network      string `json:"network,omitempty"`
	// Interface is the node's, and Where says what it is and which way the packet went.
	Interface string `json:"interface"`
	Where     string `json:"where"`
	// From and To are the addresses that the packet had there.
	From string `json:"from"`
	To   string `json:"to"`
	// Refusal: it is an answer that refuses.
	Refusal bool `json:"refusal,omitempty"`
}

// ExplanationWay is one way that the packet may take.
type ExplanationWay struct {
	// Dialled is the address, and the port if there is one, that the sender dials; To is whom it comes to; SeenAs the address that
	// the other end sees.
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
