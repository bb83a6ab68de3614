package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PodPing asks that packets are sent from a pod: it is created at pods/NAME/ping in the pod's namespace, and kept nowhere. The
// answer is a stream of PodPingLines, each a line of JSON.
type PodPing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PodPingSpec `json:"spec"`
}

// PodPingSpec says what is sent.
type PodPingSpec struct {
	// To is whom: NAMESPACE/POD, svc/NAMESPACE/NAME, node/NAME, an address, or a DNS name of the cluster's. Each address by which
	// the pod would dial it is pinged, at the same time.
	To string `json:"to"`
	// Protocol is icmp (echo requests), tcp (connections) or udp (datagrams); Port is the one that is dialled, 0 for icmp.
	Protocol string `json:"protocol"`
	Port     uint16 `json:"port,omitempty"`
	// Count is how many packets go to each address, and First the number of the first.
	Count int `json:"count"`
	First int `json:"first,omitempty"`
	// Size is that of the payload, in bytes.
	Size int `json:"size"`
	// Interval is from one packet to the next, Timeout how long an answer is waited for. Count times the longer of them may be 25 s.
	Interval metav1.Duration `json:"interval"`
	Timeout  metav1.Duration `json:"timeout"`
}

// PodPingLine is a part of the answer: a reply, or its end.
type PodPingLine struct {
	Reply *PodPingReply `json:"reply,omitempty"`
	// End: the answer is whole. Error is why it is not.
	End   bool   `json:"end,omitempty"`
	Error string `json:"error,omitempty"`
}

// PodPingReply is what became of a packet.
type PodPingReply struct {
	// Address is whom it was sent to, Number which of the packets it was.
	Address string `json:"address"`
	Number  int    `json:"number"`
	// Answered: it was, after Took; else Why says why not.
	Answered bool            `json:"answered"`
	Took     metav1.Duration `json:"took,omitzero"`
	Why      string          `json:"why,omitempty"`
}
