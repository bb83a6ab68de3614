package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PodCapture asks for the packets of a pod: it is created at pods/NAME/capture in the pod's namespace, and kept nowhere. The
// answer is a stream of PodCaptureLines, each a line of JSON.
type PodCapture struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PodCaptureSpec `json:"spec"`
}

// PodCaptureSpec says which packets are taken. A capture that lasts longer than an API server lets a request last is asked for in
// parts, with the same ID and otherwise the same spec. Between two parts the node keeps what arrives.
type PodCaptureSpec struct {
	// ID is the capture's: 16 to 64 characters, chosen at random. Part is 0 for its first part.
	ID   string `json:"id"`
	Part int    `json:"part,omitempty"`
	// Time is how long the part takes, 40 s at most. Last: the capture ends with it. One that nobody asks for more of ends after 15 s.
	Time metav1.Duration `json:"time"`
	Last bool            `json:"last,omitempty"`
	// Interface is its name in the pod, Direction is in, out or both, as seen from the pod.
	Interface string `json:"interface"`
	Direction string `json:"direction"`
	// SnapLength is how much is kept of a packet, 64 to 65535 bytes.
	SnapLength int `json:"snapLength"`
	// Prefixes, Ports and Protocols are the filter: of each list that is not empty one must fit. Prefixes are those of one end, as
	// 10.0.0.0/24, Ports of one end, Protocols are of tcp, udp, sctp, icmp and arp.
	Prefixes  []string `json:"prefixes,omitempty"`
	Ports     []uint16 `json:"ports,omitempty"`
	Protocols []string `json:"protocols,omitempty"`
	// Count and Bytes are how many packets the capture takes at most, and how many bytes of them; 0 is as many as there may be.
	Count int   `json:"count,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
}

// PodCaptureLine is a part of the answer: that it begins, packets, how many there were, or its end.
type PodCaptureLine struct {
	Begun   *PodCaptureBegun   `json:"begun,omitempty"`
	Packets []PodCapturePacket `json:"packets,omitempty"`
	Counts  *PodCaptureCounts  `json:"counts,omitempty"`
	End     *PodCaptureEnd     `json:"end,omitempty"`
	// Error is why the answer is not whole.
	Error string `json:"error,omitempty"`
}

// PodCaptureBegun says whose packets are taken.
type PodCaptureBegun struct {
	UID     string `json:"uid"`
	Network string `json:"network"`
	Node    string `json:"node"`
	// Filter is that of the capture, in tcpdump's words.
	Filter string `json:"filter,omitempty"`
}

// PodCapturePacket is one packet, as a frame of Ethernet.
type PodCapturePacket struct {
	// Time is when the node's kernel saw it, in nanoseconds since 1970.
	Time int64 `json:"time"`
	// Length is that of the packet, in bytes; Data may be less.
	Length int `json:"length"`
	// Out: the pod has sent it.
	Out  bool   `json:"out,omitempty"`
	Data []byte `json:"data"`
}

// PodCaptureCounts count what fits the filter since the capture began.
type PodCaptureCounts struct {
	// Received are all, and Dropped those of them that were not kept: there was no room.
	Received uint64 `json:"received"`
	Dropped  uint64 `json:"dropped"`
}

// PodCaptureEnd is how a part ended.
type PodCaptureEnd struct {
	Counts PodCaptureCounts `json:"counts"`
	// Told is how many packets were told since the capture began.
	Told int `json:"told"`
	// More: the next part may be asked for. If not, Why says why not; it is empty if the last part was asked for.
	More bool   `json:"more,omitempty"`
	Why  string `json:"why,omitempty"`
}
