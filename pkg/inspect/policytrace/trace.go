package policytrace

import (
	"fmt"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/policyrows"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Query is the packet that a trace follows: the first one of a connection.
type Query struct {
	From, To question.End
	// Protocol is trace.ICMP or a transport protocol.
	Protocol model.Protocol
	// Port that the packet goes to; 0 for ICMP, which has none.
	Port uint16
}

// Check says what is wrong with a query.
func (q Query) Check() error {
	switch {
	case q.From.Service != (model.ServiceKey{}):
		return fmt.Errorf("%s: a Service begins no connections", q.From)
	case q.From.Address.IsValid() && q.To.Pod == (model.PodKey{}):
		return fmt.Errorf("from %s to %s: one of them must be a pod, NAMESPACE/NAME, by which the Network is known", q.From, q.To)
	case q.From == q.To:
		return fmt.Errorf("%s: what a pod sends to itself never leaves it", q.From)
	}
	return nil
}

// Trace is what becomes of a packet.
type Trace struct {
	// From and To are the ends as they were asked for.
	From string `json:"from"`
	To   string `json:"to"`
	// Network is the one that the packet is sent in.
	Network string `json:"network"`
	// Protocol is tcp, udp, sctp or icmp.
	Protocol string `json:"protocol"`
	// Port is the one that was asked for; 0 for icmp.
	Port uint16 `json:"port,omitempty"`
	// Paths: one for each IP family that both ends have, and each endpoint.
	Paths []Path `json:"paths"`
}

// Path is one way that the packet may take.
type Path struct {
	// From and To are addresses, To after load balancing, as is Port.
	From string `json:"from"`
	To   string `json:"to"`
	Port uint16 `json:"port,omitempty"`
	// Dialled is what led to To: a Service's address and port, or another address of the pod.
	Dialled string `json:"dialled,omitempty"`
	// Refused: the Service has no endpoints.
	Refused bool `json:"refused,omitempty"`
	// Outside: it leaves the Network.
	Outside bool `json:"outside,omitempty"`
	// Steps are in the order in which the packet meets them; the last one may drop it.
	Steps []Step `json:"steps,omitempty"`
}

// Step is what is decided at one pod.
type Step struct {
	// Pod is NAMESPACE/NAME; Direction is Egress where it sends the packet and Ingress where it receives it.
	Pod       string `json:"pod"`
	Direction string `json:"direction"`
	// Verdict is allow or drop.
	Verdict string `json:"verdict"`
	// Reason says in words what decides.
	Reason string `json:"by"`
	// Policy and Rule are those of the row that decides; empty when it is none of Atoll's.
	Policy string `json:"policy,omitempty"`
	Rule   string `json:"rule,omitempty"`
	// Also are further rules that decide the same.
	Also []string `json:"also,omitempty"`
	// Isolating are the policies that isolate the pod, one of which would have to allow the packet; Unknown says why they are
	// not known.
	Isolating []string `json:"isolating,omitempty"`
	Unknown   string   `json:"unknown,omitempty"`
}

// drop is where the packet ends; nil when it passes.
func (p Path) drop() *Step {
	if n := len(p.Steps); n > 0 && p.Steps[n-1].Verdict == policyrows.VerdictWord(false) {
		return &p.Steps[n-1]
	}
	return nil
}

// Dropped counts the ways on which the packet does not pass.
func (t Trace) Dropped() int {
	n := 0
	for _, p := range t.Paths {
		if p.Refused || p.drop() != nil {
			n++
		}
	}
	return n
}

// Verdict is the outcome in one line, with what to do next when a packet is dropped.
func (t Trace) Verdict() string {
	what := t.Protocol
	if t.Port != 0 {
		what += fmt.Sprintf(" to port %d", t.Port)
	}
	what += " in Network " + t.Network
	n := t.Dropped()
	if n == 0 {
		line := "Allowed: " + what
		if slices.ContainsFunc(t.Paths, func(p Path) bool { return p.Outside }) {
			line += ". It leaves the Network, whose egress and infraAccess must permit it, too"
		}
		return line
	}
	line := "Dropped: " + what
	if n < len(t.Paths) {
		line += fmt.Sprintf(", on %d of %d ways", n, len(t.Paths))
	}
	return line + ". Next: " + t.next()
}

// next says what to look at: at the first way on which it is dropped.
func (t Trace) next() string {
	for _, p := range t.Paths {
		if p.Refused {
			return fmt.Sprintf("%s has no endpoints: are the pods of the Service ready, and do they attach to Network %s?", p.Dialled, t.Network)
		}
		s := p.drop()
		switch {
		case s == nil:
		case len(s.Isolating) > 0:
			return "one of the policies that isolate " + s.Pod + " must allow it: " + policyrows.DescribeHint(s.Isolating[0])
		case s.Unknown != "":
			return "which policies isolate " + s.Pod + " is not known: " + s.Unknown
		case s.Policy == nb.Peers:
			return fmt.Sprintf("kubectl get network %s -o jsonpath='{.status.compatibility}'", t.Network)
		case s.Policy != "":
			return policyrows.DescribeHint(s.Policy)
		default:
			return "atoll nbctl list ACL says whose it is"
		}
	}
	return ""
}
