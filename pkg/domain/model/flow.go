package model

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Flow is what one pod and another, or an address, had to do with each other within one minute, as one rule decided about it at
// the pod's end. Its words are those of an ACL's origin (package nb).
type Flow struct {
	Network   string `json:"network"`
	Direction string `json:"direction"`
	// Policy is empty where the rule is not known any more, or not yet. Rule is empty where it is no policy's.
	Policy  string `json:"policy,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Verdict string `json:"verdict,omitempty"`
	// Pod is the pod that was judged, NAMESPACE/NAME: the source's in Egress, the destination's in Ingress. Empty: no pod has the
	// address any more.
	Pod string `json:"pod,omitempty"`
	// Source and Destination are addresses of the Network. Not valid: of several, whose addresses and ports are not kept.
	Source      netip.Addr `json:"source,omitzero"`
	Destination netip.Addr `json:"destination,omitzero"`
	Protocol    string     `json:"protocol,omitempty"`
	// Port is the destination's; 0 where the protocol has none.
	Port uint16 `json:"port,omitempty"`
	// Minute is when it began, Last when the last packet was seen.
	Minute time.Time `json:"minute"`
	Last   time.Time `json:"last"`
	// Connections are those that were begun or tried: by TCP and UDP, by different ports of the source. Packets and Bytes are those
	// that were judged; of a connection that is established, none.
	Connections uint64 `json:"connections"`
	Packets     uint64 `json:"packets"`
	Bytes       uint64 `json:"bytes"`
}

// FlowQuestion says which flows somebody wants to hear of. Whoever asks for another has seen to it that the other may.
type FlowQuestion struct {
	// Networks: of these only. Nil: of all; empty: of none.
	Networks []string `json:"networks"`
	// Namespaces: of pods of these only. Nil: of all, and of what is no pod's; empty: of none.
	Namespaces []string `json:"namespaces"`
	// Pod is the name of a pod; empty: of all.
	Pod string `json:"pod,omitempty"`
	// Drops: only what was dropped or rejected.
	Drops bool `json:"drops,omitempty"`
	// Since is the age of the oldest that is wanted; 0: of all that are kept.
	Since time.Duration `json:"since,omitempty"`
	// Until is the age of the newest that is wanted; 0: now.
	Until time.Duration `json:"until,omitempty"`
	// Limit is how many are wanted of those that are kept: the newest; 0: all.
	Limit int `json:"limit,omitempty"`
	// Follow goes on with what comes, until whoever asks has enough.
	Follow bool `json:"follow,omitempty"`
	// Again, of who follows, is how far back they hear again what was told to those who followed then, as it was told, in place of
	// what is kept.
	Again time.Duration `json:"again,omitempty"`
}

// Asks reports whether a flow is asked for. One whose Network or pod is not known is nobody's who asks for those of some.
func (q FlowQuestion) Asks(flow Flow) bool {
	namespace, name, _ := strings.Cut(flow.Pod, "/")
	switch {
	case q.Networks != nil && (flow.Network == "" || !slices.Contains(q.Networks, flow.Network)):
	case q.Namespaces != nil && (namespace == "" || !slices.Contains(q.Namespaces, namespace)):
	case q.Pod != "" && q.Pod != name:
	case q.Drops && !flow.Dropped():
	default:
		return true
	}
	return false
}

// Verdicts by which a packet does not arrive: an ACL's actions.
const (
	verdictDrop   = "drop"
	verdictReject = "reject"
)

// Dropped reports whether it did not pass.
func (f Flow) Dropped() bool { return f.Verdict == verdictDrop || f.Verdict == verdictReject }

// Compare orders flows by time, and then by what they are.
func (f Flow) Compare(o Flow) int {
	return cmp.Or(
		f.Minute.Compare(o.Minute), f.Last.Compare(o.Last), strings.Compare(f.Network, o.Network),
		f.Source.Compare(o.Source), f.Destination.Compare(o.Destination), cmp.Compare(f.Port, o.Port), strings.Compare(f.Protocol, o.Protocol),
		strings.Compare(f.Direction, o.Direction), strings.Compare(f.Policy, o.Policy), strings.Compare(f.Rule, o.Rule),
	)
}
