package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Flow is what one end and another had to do with each other within a minute, as a policy's rule decided about it at the pod of
// one of them.
type Flow struct {
	Network string `json:"network"`
	// From begins, and To is dialled.
	From FlowEnd `json:"from"`
	To   FlowEnd `json:"to"`
	// Protocol is tcp, udp, sctp, icmp, icmp6, or a number. Port is the one that is dialled; 0 where there is none.
	Protocol string `json:"protocol,omitempty"`
	Port     uint16 `json:"port,omitempty"`
	// Verdict is allow, drop, reject or pass; empty where it is not known what decided.
	Verdict string `json:"verdict,omitempty"`
	// Policy decided, by Rule, at the pod that Direction says: Egress is From's, Ingress is To's. A policy is KIND/NAMESPACE/NAME,
	// or a word: isolation.
	Policy    string `json:"policy,omitempty"`
	Rule      string `json:"rule,omitempty"`
	Direction string `json:"direction,omitempty"`
	// Node is where it was judged.
	Node string `json:"node,omitempty"`
	// Minute is when that began, Last when the last packet was seen.
	Minute metav1.Time      `json:"minute"`
	Last   metav1.MicroTime `json:"last"`
	// Connections are those that were begun or tried. Packets and Bytes are those that were judged, and not those of established connections.
	Connections uint64 `json:"connections"`
	Packets     uint64 `json:"packets"`
	Bytes       uint64 `json:"bytes"`
}

// The kinds of an end of a flow.
const (
	FlowPod     = "pod"
	FlowService = "service"
	FlowGateway = "gateway"
	FlowNode    = "node"
	FlowRouter  = "router"
	FlowOutside = "outside"
)

// FlowEnd is one end of a flow.
type FlowEnd struct {
	// Address is that in the Network; empty where many came together and none is kept.
	Address string `json:"address,omitempty"`
	// Kind and Name say whose address it was, if that is known and the caller may see the object. The names of pods, Services and
	// Gateways are NAMESPACE/NAME. Both fields are empty otherwise.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
	// Network is where a pod, a Gateway or a router is whose name is told, and where the pod was that was judged; it may be another
	// than the flow's. Empty otherwise.
	Network string `json:"network,omitempty"`
}

// FlowList is some flows, the oldest first.
type FlowList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Flow     `json:"items"`
	Status          FlowStatus `json:"status"`
}

// FlowStatus says how whole an answer about flows is.
type FlowStatus struct {
	// Nodes is how many have answered.
	Nodes int `json:"nodes"`
	// Silent are those that have not, or not wholly. What they have is missing.
	Silent []SilentNode `json:"silent,omitempty"`
	// Others is how many more have not, and are not named: they have no pods of those that were asked about.
	Others int `json:"others,omitempty"`
	// Cut: there are more, older ones.
	Cut bool `json:"cut,omitempty"`
}

// Whole reports whether nothing is missing.
func (s FlowStatus) Whole() bool { return len(s.Silent)+s.Others == 0 && !s.Cut }

// SilentNode is a node whose flows are missing.
type SilentNode struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// FlowLine is a part of an answer about flows, a line of JSON: a flow, a node that is missing from now on, or the end. One that
// is none of these says that whoever answers is there.
type FlowLine struct {
	Flow   *Flow       `json:"flow,omitempty"`
	Silent *SilentNode `json:"silent,omitempty"`
	// End: nothing more comes. Error is why that is too early.
	End   *FlowStatus `json:"end,omitempty"`
	Error string      `json:"error,omitempty"`
	// Renew: the stream ends because it has lasted as long as a stream may. A client that asks again with FlowAgain misses no flow.
	// It may hear some twice, and leaves these out itself.
	Renew bool `json:"renew,omitempty"`
}
